"""`cloudretry run`: starts a program with hooks beneath its SDKs and gathers what its calls came to; and `install()`.

What runs in the program (`bootstrap/`, `inside`, `imports`, `hooks`, `counts`) needs the standard library and its SDK alone.
"""
