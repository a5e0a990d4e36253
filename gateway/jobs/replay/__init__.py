"""`replay`: the statements of a period judged once more, under two sets of policies, on Spark in parallel.

`questions` makes of the record what is to be judged, each question once; `judging` judges in Spark's Python
workers, each with a parser of its own; `comparing` tells two verdicts apart; `job` is the run.
"""
