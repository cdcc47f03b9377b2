"""Which heads matter and what they do: a model and batches of a data set enter; a number for each head leaves.

    importance   how much the loss depends on each head and unit: by the gradient of a gate, and by leaving it out
    roles        where each head looks: previous, first or same token, induction, distance, entropy; given relations
    labels       how much each head looks at what the data name: nouns, verbs, dates, who *it* is
    table        all of it for every head, and a picture
    shares       a share to keep, checked
    choose       which heads and units to keep, and the curve of the loss as they go

The heads themselves are removed by `models.transformer.pruned`.
"""
