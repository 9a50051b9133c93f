import numpy as np


def distances(a, b):
    out = []
    for x, y in zip(np.asarray(a), np.asarray(b)):
        row = list(range(len(y) + 1))
        for i, p in enumerate(x, 1):
            new = [i]
            for j, q in enumerate(y, 1):
                new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (p != q)))
            row = new
        out.append(row[-1])
    return np.array(out)
