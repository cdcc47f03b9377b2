"""What the page can ask about a model: a model folder in memory enters, JSON and packets of numbers leave; no sockets.

service      one method per question about the model; muting a head ends in `inspection.capture.zero`
requests     what the page may ask, and the limits
describe     the structure of the model as JSON
pass_cache   captured passes that the page may still ask about
packets      tensors as bytes
lessons      the lessons for this model: `lesson_states` chooses heads and tokens, `lesson_answers` computes answers
"""
