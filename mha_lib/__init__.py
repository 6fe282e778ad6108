"""The helper library of the course: import the module you need, for example ``from mha_lib.dims import Dims``.

Nothing is imported here, so that one module costs no more than what it needs itself.
"""

__version__ = "0.1.0"
