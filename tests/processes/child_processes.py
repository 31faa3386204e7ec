"""A program with two children of multiprocessing: by which method, and governed where.

``python child_processes.py fork|spawn|forkserver module|child``
"""

import json
import multiprocessing
import sys

_, METHOD, WHERE = sys.argv
if WHERE == "module":  # before the fork; again in each child, where there is none
    import governed_work  # noqa: F401


def run(queue):
    from governed_work import work

    for _ in range(2):
        queue.put(work(0))


if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    queue = context.SimpleQueue()
    children = [context.Process(target=run, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    codes = [child.exitcode for child in children]
    print(json.dumps({"codes": codes, "answers": [queue.get() for _ in range(4)]}))
