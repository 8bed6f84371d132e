"""Random collective operations, through every adapter, compared with what numpy computes.

cases.py makes cases, values.py their contents, layouts.py their memory. oracle.py knows what must
come. Each drive_*.py makes the calls through one adapter. The program random_operations.py is a
worker of a job that runs cases. lane.py starts such jobs of several shapes and counts: it is the
lane `collectives`.
"""
