"""Gateways with sample data on one machine, and tours of them: `sluice demo` and `sluice lake-demo`.

Tested in `tests/e2e/test_demo.py`.
"""
