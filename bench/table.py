"""All measurements of docs/performance.md, one behind the other in one process.

    python bench/table.py [--only f32,bf16,types,small,attention,streaming] [--triton]

What a line of PARTS says is the command line of the script it names; each script explains itself.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import attention
import matmul
import streaming

ALL = "--layout nn,nt,tn,tt"
PARTS = {
    "f32": [(matmul, f"--dtype f32 {ALL} --size 1024,2048,4096,8192"),
            (matmul, "--dtype f32 --size 4095x4097x4093")],
    "bf16": [(matmul, f"--dtype bf16 {ALL} --size 2048,4096,8192"),
             (matmul, "--dtype bf16 --size 4000x4096x4104,4095x4097x4093")],
    "types": [(matmul, "--dtype f16 --layout nn,tt --size 2048,4096,8192"),
              (matmul, "--dtype tf32,e4m3,s8 --layout nt --size 2048,4096,8192")],
    "small": [(matmul, "--dtype bf16 --size 2560x16x2560 --tune TM=32,TN=16,TK=128"),
              (matmul, "--dtype bf16 --size 2560x32x2560 --tune TM=32,TN=32,TK=128"),
              (matmul, "--dtype bf16 --size 2560x64x2560 --tune TM=32,TN=64,TK=128"),
              (matmul, "--dtype bf16 --size 2560x128x2560 --tune TM=64,TN=64,TK=128,group=1"),
              (matmul, "--dtype bf16 --size 1024 --tune TM=64,TN=128,TK=64"),
              (matmul, "--dtype f32 --size 2560x16x2560 --tune TM=32,TN=16,TK=64,num_warps=8"),
              (matmul, "--dtype f32 --size 2560x32x2560,2560x64x2560,2560x128x2560 "
                       "--tune TM=16,TN=32,TK=64,num_warps=4"),
              (matmul, "--dtype f32 --size 64x4096x4096 --tune TM=32,TN=64,TK=64,num_warps=8")],
    "attention": [(attention, "")],
    "streaming": [(streaming, "")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", default="8", help="of the matrix products")
    parser.add_argument("--triton", action="store_true",
                        help="Triton's products and attention too; streaming has it always")
    options = parser.parse_args()
    for part in options.only.split(","):
        for script, words in PARTS[part]:
            more = ["--rounds", options.rounds] if script is matmul else []
            if options.triton and script is not streaming:
                more.append("--triton")
            sys.argv = [f"{script.__name__}.py", *words.split(), *more]
            started = time.perf_counter()
            print("\n$", *sys.argv, flush=True)
            try:
                script.main()
            except Exception:  # the other measurements go on
                traceback.print_exc()
            print(f"({time.perf_counter() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
