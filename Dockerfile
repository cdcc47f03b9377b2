# A server of models, on the CPU. Build: docker build -t clearhead .
# Run: docker run --read-only --tmpfs /tmp --cap-drop ALL -p 127.0.0.1:8000:8000 -e CLEARHEAD_KEYS=… \
#          -v "$PWD/runs/mine/best:/models/mine:ro" clearhead
FROM python:3.11-slim
WORKDIR /opt/clearhead
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv venv
RUN venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir -c constraints.txt torch==2.13.0 '.[serve]'
RUN venv/bin/clearhead serve --help
USER 65534:65534
ENV HOME=/tmp CLEARHEAD_CACHE=/tmp/clearhead PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK --interval=10s CMD ["venv/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/live', timeout=5)"]
ENTRYPOINT ["venv/bin/clearhead", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/mine"]
