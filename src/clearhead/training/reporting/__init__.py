"""Records and a summary of a run enter; its log, its report, its model cards and TensorBoard events leave.

history.py     records, and the lines of log.jsonl
summary.py     what report and card know about a run
report.py      report.html: the page; sections.py and charts.py are its parts
card.py        card.md of a model folder
wording.py     models, scores and times as text
events.py      TensorBoard
"""
