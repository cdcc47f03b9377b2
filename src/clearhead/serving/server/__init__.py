"""The server behind `clearhead serve`: HTTP requests enter, answers leave; `decoding.live` writes the texts.

app           the routes, and what surrounds them
schemas       what a request may contain, and the limits
openai        completions, chat and embeddings, as OpenAI's clients expect them
answers       the JSON of texts and parts of texts
tasks         translation, classes, tokens
service       the models, the decode thread, and the texts that are asked for
served        one model: its engines, and requests as drafts
access        keys, links for a browser, limits of a request
operations    health, metrics, logs
openapi       the description of the routes
faults        errors as OpenAI's clients expect them
page/         the page at /
"""
