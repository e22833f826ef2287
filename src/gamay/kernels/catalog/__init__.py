"""The kernels that queries and ingestion are known to need, by the types of their arguments, and how to compile them ahead.

Kernels are compiled for the types that they meet, a third of a second each. The queries of the warm-up meet the common ones;
the catalog lists all that the tests met, so that no query waits for a compiler after `gamay warmup`, or some minutes after a
server has started for the first time.

    signatures.txt  one line for each: `module.kernel: type type …`; written by `tools/gen_signatures.py`
    types           types of arguments as text, and back
    entries         the lines, and the parts that processes share them in
    compiling       compiles a part, for this process's command line (`python -m gamay.kernels.catalog`), or starts that
"""
