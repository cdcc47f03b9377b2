"""What each part of a model contributes to one answer: a model and `Inputs` enter; numbers by part or token leave.

    goals        the number to explain: a logit, or the difference of two
    direct       direct logit attribution: that logit as an exact sum over embeddings, heads and feed-forwards
    passes       one pass for each of many edits, many at a time: what the next two are made of
    ablation     parts replaced by zero, by their mean over a data set, or by what they were in another text
    patching     activation patching: parts of one text put into the pass of another, site by site, token by token
    saliency     gradient × input, integrated gradients, leave-one-out
    strongest    the texts of a data set in which a unit or a head is strongest

The logit lens is in `readings.stream`.
"""
