"""`proof`: statements of the record, run as the gateway forwards them, and once more over tables that were
filtered and masked before. Both ways have to show the same rows.

The first way is the gateway's: its parser, its passes, its guards spliced into the text. The second shares
none of that: `copies` asks the policies alone what holds for a table, and `masking` makes masks in Python.
What both share is which policy holds (`policy/`), and Spark. `sandbox` is a Spark of the job's own whose
catalog nobody else sees.
"""
