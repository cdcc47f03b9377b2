"""The explorer over HTTP: a model enters, an ASGI app leaves; `page.service` answers, `app` has the routes."""
