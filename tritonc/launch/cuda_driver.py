"""What every launch needs of the CUDA driver API (package cuda-bindings), and nothing more.

`driver` is the module cuda.bindings.driver; its functions return (status, values...)."""

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from tritonc.backend.target.target import TARGETS
from tritonc.source import fail

_STATIC_SHARED = 48 * 1024  # bytes of shared memory that a launch may have without asking
NO_CONTEXT = (201, 400, 709)  # invalid context, invalid handle, context is destroyed


@cache
def open_driver() -> Any:
    """The driver, initialised.  Raises CompileError where package or driver is missing."""
    try:
        from cuda.bindings import driver  # optional: only who has a GPU needs the package
    except ImportError:
        raise fail("no-device", None, "running on a GPU needs the package cuda-bindings: "
                   "pip install cuda-bindings") from None
    try:
        result = driver.cuInit(0)
    except RuntimeError:  # the package does not find the library
        raise fail("no-device", None, "cannot initialise CUDA: there is no driver") from None
    values(driver, "initialise CUDA", result)
    return driver


def values(driver: Any, what: str, result: tuple[Any, ...]) -> Any:
    """The values of a driver call.  Raises CompileError with CUDA's own words for the error."""
    status, *found = result
    if int(status) != 0:
        raise fail("no-device" if what.endswith("GPU") or "CUDA" in what else "cuda-error",
                   None, f"cannot {what}: {words(driver, status)}")
    return found[0] if len(found) == 1 else found


def words(driver: Any, status: Any) -> str:
    """What the driver says that a status means."""
    _, text = driver.cuGetErrorString(status)
    return text.decode() if isinstance(text, bytes) else str(status)


def capability(driver: Any, device: Any) -> tuple[int, int]:
    """The compute capability of a device: (9, 0) for an H100."""
    attribute = driver.CUdevice_attribute
    major, minor = (int(values(driver, "ask the GPU", driver.cuDeviceGetAttribute(wanted, device)))
                    for wanted in (attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                   attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))
    return major, minor


def target_of(capability: tuple[int, int]) -> str:
    """The name of the target for a GPU: its own, or the newest whose PTX it runs.

    >>> target_of((9, 0)), target_of((8, 9)), target_of((8, 8))
    ('sm_90a', 'sm_89', 'sm_87')
    """
    mine = capability[0] * 10 + capability[1]
    older = [t for t in TARGETS.values() if t.capability <= mine
             and (t.capability == mine or not t.name.endswith("a"))]
    return max(older, key=lambda t: (t.capability, t.name)).name


def device_target(driver: Any) -> str:
    """The target for the first GPU.  Raises CompileError if there is none."""
    handle = values(driver, "find a GPU", driver.cuDeviceGet(0))
    return target_of(capability(driver, handle))


def load(driver: Any, image: bytes) -> Any:
    """A module in the current context from PTX, which the driver compiles, or machine code.

    Raises CompileError with what the driver has to say against it."""
    log = bytearray(1 << 14)
    options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
               driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    status, loaded = driver.cuModuleLoadDataEx(image + b"\0", len(options), options,
                                               [log, len(log)])
    if int(status) != 0:
        text = bytes(log).split(b"\0")[0].decode("utf-8", "replace").strip()
        raise fail("cuda-error", None, f"the driver rejects the PTX: {text or status}")
    return loaded


def entry(driver: Any, loaded: Any, kernel: str, dynamic_shared: int) -> Any:
    """A kernel of a module, ready for launches with `dynamic_shared` bytes of shared memory."""
    found = values(driver, f"find kernel '{kernel}' in the PTX",
                   driver.cuModuleGetFunction(loaded, kernel.encode()))
    if dynamic_shared > _STATIC_SHARED:
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        values(driver, "raise the shared memory limit",
               driver.cuFuncSetAttribute(found, limit, dynamic_shared))
    return found


def fill_table(driver: Any, loaded: Any, symbol: str, data: bytes) -> None:
    """Copy bytes, as many as fit, to a module's constant table."""
    held = array("B", data)
    address, size = held.buffer_info()
    table, room = values(driver, f"find the table '{symbol}'",
                         driver.cuModuleGetGlobal(loaded, symbol.encode()))
    values(driver, "fill a table", driver.cuMemcpyHtoD(table, address, min(size, int(room))))


@cache
def primary_context(driver: Any, device: int) -> Any:
    """The context that torch, CuPy and the CUDA runtime use too; kept while the process lives."""
    handle = values(driver, "find a GPU", driver.cuDeviceGet(device))
    return values(driver, "open the GPU", driver.cuDevicePrimaryCtxRetain(handle))


@contextmanager
def context(driver: Any, device: int) -> Iterator[None]:
    """The device's primary context, current inside."""
    context = primary_context(driver, device)
    values(driver, "use the GPU", driver.cuCtxPushCurrent(context))
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


def current_device(driver: Any) -> int:
    """The device of the calling thread; the first where it has none yet."""
    status, device = driver.cuCtxGetDevice()
    return int(device) if int(status) == 0 else 0


def wait_for(driver: Any, after: int | None, stream: int) -> None:
    """Let `stream` wait for what is on stream `after` now."""
    if after is None or after == (stream or 1):
        return
    event = values(driver, "make an event", driver.cuEventCreate(
        int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
    try:
        values(driver, "record an event", driver.cuEventRecord(event, after))
        values(driver, "wait for a stream", driver.cuStreamWaitEvent(stream, event, 0))
    finally:
        driver.cuEventDestroy(event)
