"""A recipe enters; a trained model leaves, with a report on how it was trained.

recipes/        files -> the recipe that suits them
run/            the whole run, and its folder
loop/           the training loop: steps, losses, optimizers
checkpoints/    saving and resuming
distributed/    several processes
evaluation/     scores and samples
reporting/      log, report, cards
"""
