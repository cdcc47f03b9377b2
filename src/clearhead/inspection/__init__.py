"""Reads and changes what passes through a model: a `Bundle` or its module enters; tensors, readings and laws leave.

capture      record the tensors of named sites, or edit them while the model runs
variants     the same weights without a part: projections, scaling, mask or positions
passes       one captured pass over a text, with heads muted (`capture.zero`) or switched off
readings/    what is read off such a pass: heads, residual stream, logit lens, embeddings, the next token
attribution/   what each part contributes to one answer: direct logit attribution, ablation, patching, saliency
heads/         how much each head matters and where it looks, and which to keep
cache_comparison   a text generated with the key-value cache and without it
check        the laws that a model folder must obey on this machine
figures      attention as SVG and as text; markup: the elements they are made of
"""
