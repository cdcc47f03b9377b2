"""What is read off a captured pass: a `Pass` enters; tensors and small dataclasses leave.

Nothing here is fitted or drawn: every number follows by arithmetic from the model's own tensors and modules.

    tensors         any tensor of the pass by name, inputs and position biases of sublayers among them
    predictions     probabilities after a token, the likeliest tokens or classes, and the loss of the true next token
    heads           statistics of each head, its strongest pair of words, thumbnails, and the effect of muting it
    stream          the residual stream of one token, and the logit lens
    embeddings      nearest neighbours of a token, and a projection onto two dimensions
    attribution     what each part adds to a logit, each token's score, and what carries the difference of two texts
    leave_one_out   class probabilities of the text without each of its words
    change          what a what-if changes: the prediction that moves most, and the model's own output
    next_token      how the next token is chosen, rule by rule
"""
