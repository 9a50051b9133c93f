"""The table of commands and of their options.

Each command-line option is one row of `TABLE`.  The command line's parser, `--help`, the manual
page and docs/cli.md derive from the rows; a test checks that the documents agree with them.
A row whose `name` is a field of `options.Options` sets that field; the others belong to the command
line itself (where output goes, what kind it is).
"""

from __future__ import annotations

from typing import NamedTuple

from tritonc.meta_parameters import META_PARAMETERS
from tritonc.options import DEFAULT_ARCH, MOST_VARIANTS

MESSAGES = "-"  # as the file of --remarks: among the messages
WITHIN = 2.0  # per cent
SHORT = "short"  # as the topic of --help: what is used most


class Option(NamedTuple):
    """One row.  `flags` are all spellings, the first the one that help shows first.

    `value` names the value in help; without one the option is a switch that stores True, or
    `stores`.  `joined`: the value may follow the flag with nothing between (-DNAME, -O2).
    A spelling of two dashes, or of one with more than a letter, takes `=VALUE` too.
    """

    name: str
    flags: tuple[str, ...]
    help: str
    group: str
    value: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""  # as help states it
    many: bool = False  # may be given several times
    joined: bool = False
    optional_value: str = ""  # what a bare flag means where a value may follow (--flag[=VALUE])
    off: tuple[str, ...] = ()  # spellings of the opposite
    stores: str = ""
    prefix: str = ""  # put before each value
    commands: tuple[str, ...] = ("compile",)
    common: bool = False  # in the short help of `compile`


class Command(NamedTuple):
    """A subcommand; "compile" is the one that needs no name.  `function` is "module:name", which
    takes the files and every option's value by its name, and returns the exit code.  `summary` is
    for the list of commands."""

    usage: str
    description: str
    function: str
    summary: str


COMMANDS: dict[str, Command] = {
    "compile": Command("tritonc [options] FILE [-o OUT]", """\
Compile FILE, a Triton-C source (.tc) or Triton-IR (.tir), to PTX or another kind of output. FILE
may be -, standard input. `tritonc run FILE` runs the problem that FILE states about itself.""",
                       "tritonc.cli.compile_command:compile_command",
                       "Compile to PTX or another kind of output."),
    "run": Command("tritonc run [options] FILE", """\
Run the problems that FILE states in its //! lines, in the interpreter or on a GPU, and compare the
results with their references. Prints one line for each problem.""",
                   "tritonc.cli.run_command:run_command",
                   "Run the problems that FILE states in its //! lines."),
    "test": Command("tritonc test [options] FILE...", """\
Run the problems of many files, as `tritonc run` does those of one. A file that is wrong does not
stop the others. The last line says how many of how many problems are right.""",
                    "tritonc.cli.run_command:test_command",
                    "Run the problems of many files."),
    "debug": Command("tritonc debug [options] FILE", """\
Run the problems that FILE states in the interpreter, and stop where you ask: at lines, in
instances, where a value changes. Commands are those of gdb as far as there are such; help lists
them. They come from standard input, or from the file that -x names.""",
                     "tritonc.cli.debug_command:debug_command",
                     "Stop the problems that FILE states, and look at tiles."),
    "tune": Command("tritonc tune [options] FILE", """\
Compile FILE with every combination of its tunables and of the passes' meta-parameters, measure each
on the GPUs of this machine, and write the best to STEM.tune.json, which tritonc reads when it
compiles FILE. What is measured is kept: a run that was stopped goes on where it was. Exit code 3:
there is no GPU, and only the cost model's order was printed.""",
                    "tritonc.cli.tune_command:tune_command",
                    "Measure all values of tunables on a GPU and keep the best."),
    "bench": Command("tritonc bench [options] FILE", """\
Time the kernels of FILE on a GPU at the sizes of their bench: lines, after checking their results.
Rates come from the flops: and bytes: lines.""",
                     "tritonc.cli.tune_command:bench_command",
                     "Time the kernels of FILE on a GPU."),
    "info": Command("tritonc info [options] [FILE]", """\
Say how the kernels of FILE are launched, a .ptx that tritonc wrote, or a source, which is compiled
for it; and, where NVIDIA's ptxas is installed, what they need of a multiprocessor. Without FILE,
say what there is on this machine: versions, GPUs, targets.""",
                    "tritonc.cli.info_command:info_command",
                    "Say how kernels are launched, or what this machine has."),
    "reduce": Command("tritonc reduce [options] FILE -- COMMAND...", """\
Make FILE, a .tc or .tir, as small as it can be while COMMAND still ends with the same exit status.
{} in COMMAND stands for the path of the text to try; without {} the path is the last argument. The
smallest so far is always in the output, also after an interruption.""",
                      "tritonc.cli.reduce_command:reduce_command",
                      "Shrink FILE while a command's exit status stays."),
    "bug": Command("tritonc bug [options] FILE", """\
Compile FILE with the options, run its problems in the interpreter, and put into one archive what a
bug report needs: the source as it is and preprocessed, options, versions, how far tritonc came,
messages, the IR before the pass that failed. Look at what is in it before you send it.""",
                   "tritonc.cli.bug_command:bug_command",
                   "Make the archive of a bug report."),
}
_RUNNING = ("run", "test")
_BOTH = ("compile", *_RUNNING, "bug")
_MEASURING = ("tune", "bench")
_DEBUG = ("debug",)
_ALL = (*_BOTH, *_DEBUG, *_MEASURING, "info")
_READING = (*_ALL, "reduce")
OUTPUT, PREPROCESSOR, TARGET, OPTIMISATION, WARNINGS, DEBUGGING, DEPENDENCIES, RUNNING, OTHER = (
    "Output", "Preprocessor", "Target", "Optimisation and arithmetic", "Diagnostics",
    "Debugging", "Dependencies for make and ninja", "Running", "Other",
)  # fmt: skip

TABLE: tuple[Option, ...] = (
    Option("output", ("-o", "--output"), "Write to FILE; its suffix says the kind, PTX without "
           "one. - is standard output. Without -o, the stem of the source with the kind's suffix, "
           "in the working directory; standard output for -E and -M.", OUTPUT, "FILE",
           joined=True, common=True),
    Option("output", ("-o", "--output"), "Write to FILE.", OUTPUT, "FILE", joined=True,
           default="STEM.reduced and the suffix of the source", commands=("reduce",)),
    Option("output", ("-o", "--output"), "Write the archive to FILE.", OUTPUT, "FILE", joined=True,
           default="STEM.bug.tar.gz in the working directory", commands=("bug",)),
    Option("emit", ("--emit",), "Kinds of output; several go to the stem of -o, each with its own "
           "suffix.", OUTPUT, "KIND[,KIND]", many=True, common=True),
    Option("emit", ("-S",), "The same as --emit=ptx.", OUTPUT, stores="ptx"),
    Option("emit", ("-c",), "The same as --emit=cubin: machine code, by NVIDIA's ptxas.", OUTPUT,
           stores="cubin"),
    Option("emit", ("-E", "--preprocess"), "Preprocess only; the same as --emit=i.", OUTPUT,
           stores="i"),
    Option("header", ("--header",), "Write a header for C99 and C++11 hosts to FILE too: typed "
           "launches by the CUDA driver API.", OUTPUT, "FILE", common=True),
    Option("embed", ("--embed",), "Put the PTX, or machine code, into the header.", OUTPUT, "KIND",
           choices=("ptx", "cubin", "fatbin"), optional_value="ptx"),
    Option("prefix", ("--prefix",), "What the header's names begin with.", OUTPUT, "NAME",
           default="the source's stem, and nothing before kernels"),
    Option("ptxas", ("--ptxas",), "NVIDIA's assembler, for machine code.", OUTPUT, "PATH",
           default="on PATH, in CUDA_HOME, /usr/local/cuda, or a Python package",
           commands=("compile", "info")),
    Option("if_changed", ("--if-changed",), "Leave an output alone that would not change.",
           OUTPUT),
    Option("save_temps", ("--save-temps", "-save-temps"), "Keep what is made on the way, too: .i, "
           ".tir, .ll and .ptx, beside the output.", OUTPUT),
    Option("dry_run", ("--dry-run", "-###"), "Say what would be read, run and written, and do "
           "nothing.", OUTPUT),
    Option("syntax_only", ("-fsyntax-only", "--syntax-only"), "Check the source, write nothing.",
           OUTPUT),
    Option("defines", ("-D", "--define"), "Define a macro (as 1 without a value).", PREPROCESSOR,
           "NAME[=VALUE]", many=True, joined=True, commands=_READING, common=True),
    Option("defines", ("-U", "--undefine"), "Undefine a macro.", PREPROCESSOR, "NAME", many=True,
           joined=True, prefix="-U", commands=_READING),
    Option("include_dirs", ("-I", "--include-dir"), "Look for included files in DIRECTORY too.",
           PREPROCESSOR, "DIRECTORY", many=True, joined=True, commands=_READING, common=True),
    Option("system_dirs", ("-isystem", "--system-dir"), "The same, after all of -I, and without "
           "warnings about what is there.", PREPROCESSOR, "DIRECTORY", many=True, joined=True,
           commands=_READING),
    Option("forced_includes", ("-include", "--include"), "Read FILE before the source.",
           PREPROCESSOR, "FILE", many=True, commands=_READING),
    Option("language", ("-x", "--language"), "What the source is, where its suffix does not say.",
           OTHER, "LANGUAGE", choices=("tc", "tir"), default="by suffix; tc for others",
           commands=(*_BOTH, "info", "reduce")),
    Option("arch", ("--arch", "-arch"), "The GPU to compile for: a name that --list-targets "
           "lists, or native, this machine's. Several, as in sm_80,sm_90a, go into one fatbin.",
           TARGET, "NAME",
           default=f"{DEFAULT_ARCH}; native for run and test --device=cuda, tune and bench",
           commands=_ALL, common=True),
    Option("ptx", ("-mptx", "--ptx"), "The PTX version to write, such as 8.3.", TARGET, "VERSION",
           default="the lowest that has the target's features", commands=("compile", "bug")),
    Option("list_targets", ("--list-targets",), "List the targets and exit.", TARGET, common=True),
    Option("tune", ("--tune",), "Give a tunable its value, or a meta-parameter of a pass: "
           f"{', '.join(row.name for row in META_PARAMETERS)}.", OPTIMISATION, "NAME=VALUE",
           default="the tuning file's, else the cost model's choice; -v says it", many=True,
           commands=_ALL, common=True),
    Option("tuning", ("--tuning",), "The tuning file, which tritonc tune writes; none uses none.",
           OPTIMISATION, "FILE", default="STEM.tune.json beside the source, if there is one",
           commands=_ALL),
    Option("opt_level", ("-O", "--optimize"), "How much to optimise.", OPTIMISATION, "LEVEL",
           choices=("0", "1", "2", "3"), default="2; 0 with -g, and where run interprets",
           joined=True, optional_value="1", commands=_ALL, common=True),
    Option("fp_contract", ("-ffp-contract", "--fp-contract"), "Whether a * b + c within one "
           "expression may round once.", OPTIMISATION, "WHEN", choices=("on", "off"), default="on",
           commands=_ALL),
    Option("fast_math", ("-ffast-math", "--fast-math"), "Allow reassociation, approximate "
           "division, flushing of subnormals, and sums of float8 products as the tensor cores keep "
           "them.", OPTIMISATION, off=("-fno-fast-math",), commands=_ALL, common=True),
    Option("denormal", ("-fdenormal", "--denormal"), "What becomes of subnormal floats: kept, or "
           "flushed to zero.", OPTIMISATION, "WHAT", choices=("ieee", "flush"),
           default="ieee; flush with -ffast-math", commands=_ALL),
    Option("precise_math", ("-fprecise-math", "--precise-math"), "Functions such as exp to the "
           "last bit.", OPTIMISATION, off=("-fno-precise-math",), commands=_ALL),
    Option("device_assert", ("--device-assert",), "Compile assert and printf into the kernel.",
           OPTIMISATION, commands=_BOTH),
    Option("warnings", ("-W", "--warn"), "all and extra turn on groups, NAME a warning; no-NAME "
           "turns it off; error or error=NAME makes errors of them.", WARNINGS, "NAME", many=True,
           joined=True, commands=_ALL, common=True),
    Option("warnings", ("-w", "--no-warnings"), "No warnings at all.", WARNINGS, stores="no-all",
           commands=_ALL),
    Option("error_limit", ("-ferror-limit", "--error-limit"), "Stop after so many errors; 0 is no "
           "limit.", WARNINGS, "COUNT", default="20", commands=_ALL),
    Option("diagnostics_format", ("-fdiagnostics-format", "--diagnostics-format"), "How messages "
           "are written.", WARNINGS, "FORMAT", choices=("text", "json", "sarif"),
           default="text",
           commands=_READING),
    Option("color", ("-fdiagnostics-color", "--color"), "Colour in messages. auto heeds the "
           "terminal, NO_COLOR and CLICOLOR_FORCE.", WARNINGS, "WHEN",
           choices=("auto", "always", "never"), default="auto", optional_value="always",
           commands=_READING),
    Option("remarks", ("--remarks",), "Say, for each place of the source, what passes did "
           "or could not do there that its text or options can change: the width of accesses, "
           "pipelines, matrix instructions. With FILE, write that there, as JSON.", WARNINGS,
           "FILE", optional_value=MESSAGES, common=True),
    Option("remarks_done", ("-Rpass", "--remarks-done"), "Of those remarks, what passes "
           "did whose names the regular expression matches.", WARNINGS, "REGEX",
           optional_value="."),
    Option("remarks_missed", ("-Rpass-missed", "--remarks-missed"), "The same for what they "
           "could not do.", WARNINGS, "REGEX", optional_value="."),
    Option("explain", ("--explain",), "Explain a diagnostic, or list them all (list).", WARNINGS,
           "NAME", common=True),
    Option("print_after", ("--print-after",), "Print the IR after PASS, or after all.", DEBUGGING,
           "PASS", many=True),
    Option("print_before", ("--print-before",), "Print the IR before PASS, or before all.",
           DEBUGGING, "PASS", many=True),
    Option("print_changed", ("--print-changed",), "Print the IR after each pass that changes it.",
           DEBUGGING),
    Option("stop_after", ("--stop-after",), "Run no pass after PASS; the output is .tir.",
           DEBUGGING, "PASS"),
    Option("start_after", ("--start-after",), "Go on with a .tir that --stop-after=PASS wrote.",
           DEBUGGING, "PASS", commands=("compile", "bug")),
    Option("list_passes", ("--list-passes",), "List the passes in their order and exit.",
           DEBUGGING),
    Option("verify_each", ("--verify-each",), "Check the IR after every pass that changes it.",
           DEBUGGING, commands=_BOTH),
    Option("line_info", ("-lineinfo", "--line-info"), "Put source lines into the PTX, for "
           "profilers and debuggers.", DEBUGGING, commands=_BOTH, common=True),
    Option("debug", ("-g", "--debug"), "Debug information for cuda-gdb, which stops at source "
           "lines; neither tritonc nor the assembler then optimises.", DEBUGGING, commands=_BOTH),
    Option("file_prefix_map", ("-ffile-prefix-map", "--file-prefix-map"), "Paths of sources that "
           "begin with OLD begin with NEW where they get into the output: by -lineinfo, -g, "
           "assert and __FILE__.", DEBUGGING, "OLD=NEW", many=True, commands=_BOTH),
    Option("time_report", ("-ftime-report", "--time-report"), "Say how long each stage took.",
           DEBUGGING, commands=_BOTH),
    Option("time_trace", ("-ftime-trace", "--time-trace"), "Write that to FILE, for the viewers of "
           "Chrome's traces.", DEBUGGING, "FILE"),
    Option("verbose", ("-v", "--verbose"), "Say what was decided: tunables, layouts, resources.",
           DEBUGGING, commands=_READING, common=True),
    Option("depend", ("-MD", "--write-dependencies"), "Write a rule of dependencies beside the "
           "output, with suffix .d.", DEPENDENCIES, stores="MD", common=True),
    Option("depend", ("-MMD",), "The same without the files of -isystem.", DEPENDENCIES,
           stores="MMD"),
    Option("depend", ("-M",), "Write the rule in place of output, and compile nothing.",
           DEPENDENCIES, stores="M"),
    Option("depend", ("-MM",), "The same without the files of -isystem.", DEPENDENCIES,
           stores="MM"),
    Option("depend_file", ("-MF", "--dependency-file"), "The file of the rule.", DEPENDENCIES,
           "FILE"),
    Option("depend_targets", ("-MT", "--dependency-target"), "What the rule makes, verbatim.",
           DEPENDENCIES, "TARGET", many=True),
    Option("depend_quoted", ("-MQ", "--dependency-target-quoted"), "What the rule makes, quoted "
           "for make.", DEPENDENCIES, "TARGET", many=True),
    Option("depend_phony", ("-MP", "--dependency-phony"), "Add an empty rule for each included "
           "file.", DEPENDENCIES),
    Option("variants", ("--variants",), "Make variants of each kernel, at most COUNT beside the "
           "general one; the launch chooses. They come from the tuning file, if it has several "
           "sizes, else from the cost model.", OPTIMISATION, "COUNT",
           optional_value=str(MOST_VARIANTS), commands=("compile", "info", "bug"), common=True),
    Option("variant", ("--variant",), "Make this variant of a kernel: tunables, meta-parameters, "
           "and facts of parameters that the launch tests (N%8, stride==1, K>=1).", OPTIMISATION,
           "[KERNEL:]NAME=VALUE,FACT...", many=True, commands=("compile", "info", "bug")),
    Option("sizes", ("--set",), "A size of the problem: the tuning file's nearest entry counts.",
           OPTIMISATION, "NAME=VALUE", default="the file's largest", many=True,
           commands=("compile", "bug")),
    Option("sizes", ("--set",), "Give a size of the problem another value.", RUNNING, "NAME=VALUE",
           many=True, commands=(*_RUNNING, *_DEBUG)),
    Option("sizes", ("--set",), "A size to measure, all its names separated by commas, or a grid: "
           "M=1..64:x2 or M=64..512:+64 in place of a value. Several measure several sizes.",
           RUNNING, "NAME=VALUE,...", default="those of the problem's bench: lines", many=True,
           commands=_MEASURING),
    Option("size_files", ("--sizes",), "Measure the sizes of FILE, of which each line is like the "
           "value of --set.", RUNNING, "FILE", many=True, commands=_MEASURING),
    Option("within", ("--within",), "Of several sizes, let the fewest sets of values serve all, "
           "each at most so many per cent slower than its best.", RUNNING, "PERCENT",
           default=f"{WITHIN:g}; 0 keeps the best of each size", commands=("tune",)),
    Option("space", ("--space",), "What is searched: tunables and meta-parameters, or, as in the "
           "paper, tunables and the micro- and nano-tiles of products on CUDA cores.", RUNNING,
           "SPACE", choices=("all", "nesting"), default="all", commands=("tune",)),
    Option("device", ("--device",), "Where to run.", RUNNING, "DEVICE",
           choices=("interpreter", "cuda"), default="interpreter", commands=_RUNNING),
    Option("kernel", ("--kernel",), "Only the problems of this kernel.", RUNNING, "NAME",
           commands=(*_RUNNING, *_DEBUG, *_MEASURING)),
    Option("commands", ("-x", "--commands"), "Read the debugger's commands from FILE.", RUNNING,
           "FILE", default="standard input", commands=_DEBUG),
    Option("order", ("--order",), "In which order the interpreter runs instances, which have none: "
           "forward, reverse, random:SEED, or interleaved, a block of each in turn.", RUNNING,
           "ORDER", default="forward", commands=(*_RUNNING, *_DEBUG)),
    Option("max_steps", ("--max-steps",), "So many operations of one instance are taken for a loop "
           "that does not end.", RUNNING, "COUNT", default="20000000",
           commands=(*_RUNNING, *_DEBUG)),
    Option("seed", ("--seed",), "Of the random numbers in the data.", RUNNING, "NUMBER",
           default="0", commands=(*_RUNNING, *_DEBUG, *_MEASURING)),
    Option("devices", ("--devices",), "Numbers of the GPUs to measure on.", RUNNING, "N[,N]",
           default="all that are like the first; bench takes the first", commands=_MEASURING),
    Option("against", ("--against",), "An expression of torch over the problem's arguments, to "
           "measure in turn with the kernel, such as 'torch.matmul(a, b)'.", RUNNING, "EXPRESSION",
           commands=("bench",)),
    Option("jobs", ("-j", "--jobs"), "How many processes compile.", RUNNING, "COUNT",
           default="one for each processor", joined=True, commands=("tune",)),
    Option("jobs", ("-j", "--jobs"), "How many commands run at the same time.", RUNNING, "COUNT",
           default="one for each processor", joined=True, commands=("reduce",)),
    Option("cluster", ("--cluster",), "Compile and measure on the workers of this scheduler of "
           "dask.distributed.", RUNNING, "ADDRESS", commands=("tune",)),
    Option("budget", ("--budget",), "Begin no candidate after so many seconds; the most promising "
           "come first.", RUNNING, "SECONDS", default="none: all candidates", commands=("tune",)),
    Option("timeout", ("--timeout",), "Give a candidate up after so many seconds.", RUNNING,
           "SECONDS", default="30", commands=("tune",)),
    Option("timeout", ("--timeout",), "A text for which COMMAND takes longer does not count.",
           RUNNING, "SECONDS", default="30", commands=("reduce",)),
    Option("matching", ("--matching",), "What COMMAND prints must have a match of REGEX too, so "
           "that no other mistake of the same exit status takes the place of the one at hand.",
           RUNNING, "REGEX", commands=("reduce",)),
    Option("reduce", ("--reduce",), "Add the source reduced to what still goes wrong.", RUNNING,
           commands=("bug",)),
    Option("fresh", ("--fresh",), "Measure again what earlier runs measured.", RUNNING,
           commands=("tune",)),
    Option("report", ("--report",), "Write a page for a browser: best candidates, time by "
           "parameter, roofline.", RUNNING, "FILE.html", commands=("tune",)),
    Option("cmake_dir", ("--cmake-dir",), "Print the directory of the CMake module and exit.",
           OTHER),
    Option("version", ("--version",), "Print the version and exit.", OTHER, common=True),
    Option("dump_version", ("-dumpversion", "--dumpversion"), "Print the number of the version "
           "alone and exit.", OTHER),
    Option("help", ("--help", "-h"), "Print help and exit: what is used most, or TOPIC: all, or a "
           "group of options by its first word, such as target.", OTHER, "TOPIC",
           optional_value=SHORT, commands=_READING, common=True),
)


def rows(command: str) -> list[Option]:
    """The rows that `command` ("compile" or a subcommand's name) takes, in the table's order."""
    return [row for row in TABLE if command in row.commands]


def canonical(row: Option) -> str:
    """The row's long spelling; the only one where there is no long one.

    >>> canonical(TABLE[0])
    '--output'
    """
    return next((f for f in row.flags if f.startswith("--")), row.flags[0])
