"""Odd programs run plainly and captured: output, errors, exit code and files must be the same, byte for byte.

    python benchmarks/odd_programs.py [-k TEXT]      ten minutes; the last ones have torch

Each case runs in two new folders of the same name, once as it is and once below `inspector capture -q`. Output,
errors, the exit code and the files that are left (the run's own aside) are compared. A capture
adds variables, so programs print none of those; what a program may see of it by looking (its parent, its
standard error being a pipe) is no case here. Prints a table, and exits with 1 where anything differs.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from common import PYTHON, ROOT

CLI = (PYTHON, "-P" if sys.version_info >= (3, 11) else "-s", "-c")
# Variables of a case are the program's and not ours: PYTHONPATH=lib must not break the one that captures.
OURS = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from inspector.cli.app import main; main()"
LIMIT_S = 180.0
MODULES = "print(sorted(m for m in sys.modules if m[0] != '_')); print(sys.path[1:], sys.flags, sys.argv)"
STATE = """
import os, resource as r, signal as s, sys
for n in sorted(s.valid_signals()): print(int(n), s.getsignal(n))
print(s.pthread_sigmask(s.SIG_BLOCK, ()), os.umask(0), os.nice(0), os.getcwd() == os.path.dirname(os.path.abspath('prog.py')))
print([(n, r.getrlimit(getattr(r, n))) for n in sorted(dir(r)) if n.startswith('RLIMIT')])
print(sorted(n for n in os.environ if not n.startswith(('TORCH', 'TRITON', 'INSPECTOR', 'PYTHONPATH', 'SHLVL', '_'))))
print(os.sched_getaffinity(0), os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())
print(open('/proc/self/oom_score_adj').read(), open('/proc/self/comm').read(), sys.flags, sys.getrecursionlimit())
"""
"""What a process gets from the one that starts it."""
NOTEBOOK = """{"cells": [{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {}, "outputs": [],
 "source": "print(6 * 7)"}, {"cell_type": "code", "execution_count": null, "id": "b", "metadata": {},
 "outputs": [], "source": "import sys; print('x', file=sys.stderr); 1/0"}],
 "metadata": {"kernelspec": {"display_name": "p", "language": "python", "name": "python3"}},
 "nbformat": 4, "nbformat_minor": 5}"""
COMPILED = """
import torch
f = torch.compile(lambda x: (x + 1).relu() * 2, backend='eager')
"""
STAMP = "V1121 05:00:18.841000 77 torch/_inductor/scheduler.py:1] [0/0] [__fusion] mine"


@dataclass(frozen=True)
class Odd:
    """A program: `code` becomes prog.py, `files` lie beside it, `words` follow the interpreter. `shell` wraps
    the whole command, `"$@"`; `after` is done to it once it has printed `ready`."""

    name: str
    code: str = ""
    words: Sequence[str] = ("prog.py",)
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    shell: str = ""
    program: str = PYTHON
    after: Callable[[int], None] | None = None
    needs: str = ""


def _send(number: signal.Signals) -> Callable[[int], None]:
    return lambda pid: os.kill(pid, number)


CASES = [
    Odd("nothing", ""),
    Odd("what is loaded, and from where", f"import sys; {MODULES}"),
    *(
        Odd(f"its own {name}.py", f"import {name}; print({name}.MINE)", files={f"{name}.py": "MINE = 1"})
        for name in ("json", "queue", "threading", "inspect", "platform", "contextlib", "typing")
    ),
    Odd("a folder of shadows on PYTHONPATH", "import json; print(json.MINE)", env={"PYTHONPATH": "lib"},
        files={f"lib/{name}.py": "print('loaded', __name__); MINE = 1" for name in ("json", "queue", "inspect")}),
    Odd("its own torch.py", "import torch; print(torch.MINE)", files={"torch.py": "MINE = 1"}),
    Odd("a torch that fails", "import torch", files={"torch.py": "raise RuntimeError('broken')"}),
    Odd("a torch that has no syntax", "import torch", files={"torch.py": "def"}),
    Odd("a torch that is not there", "import torch._dynamo.nothing", files={"torch/__init__.py": ""}),
    Odd("its own sitecustomize", "import sitecustomize as s, sys; print(s.__name__, s.MINE, sys.path[1:3])",
        files={"lib/sitecustomize.py": "print('site'); MINE = 1"}, env={"PYTHONPATH": "lib"}),
    Odd("a sitecustomize that fails", "print('on')", env={"PYTHONPATH": "lib"},
        files={"lib/sitecustomize.py": "raise RuntimeError('broken')"}),
    Odd("a sitecustomize that lacks a module", "print('on')", env={"PYTHONPATH": "lib"},
        files={"lib/sitecustomize.py": "import no_such_module"}),
    Odd("a sitecustomize that exits", "print('on')", env={"PYTHONPATH": "lib"},
        files={"lib/sitecustomize.py": "import os; os._exit(9)"}),
    Odd("no sitecustomize", "import sitecustomize"),
    Odd("fork", """
        import os, sys
        pid = os.fork()
        if not pid:
            print('child'); sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"""),
    Odd("a thousand forks", """
        import os
        for _ in range(1000):
            if not (pid := os.fork()): os._exit(0)
            os.waitpid(pid, 0)
        print('all')"""),
    Odd("spawn", """
        import multiprocessing as m
        def work(x): return x * x
        if __name__ == '__main__':
            with m.get_context('spawn').Pool(2) as pool: print(pool.map(work, range(5)))"""),
    Odd("forkserver", """
        import multiprocessing as m
        def work(x): return x * x
        if __name__ == '__main__':
            with m.get_context('forkserver').Pool(1) as pool: print(pool.map(work, range(5)))"""),
    Odd("os._exit", "import os, sys; print('lost', end=''); sys.stderr.write('seen'); os._exit(77)"),
    Odd("exit code 5", "raise SystemExit(5)"),
    Odd("exit with a text", "raise SystemExit('why')"),
    Odd("exit code 255 and more", "raise SystemExit(-1)"),
    Odd("a traceback", "def f(): f2()\ndef f2(): 1/0\nf()"),
    Odd("a crash", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    Odd("SIGKILL by itself", "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGKILL)"),
    Odd("an abort", "import os; os.abort()"),
    Odd("deep recursion", "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError: print('deep')"),
    Odd("SIGTERM from outside", """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(4)))
        print('ready', flush=True); time.sleep(30)""", after=_send(signal.SIGTERM)),
    Odd("SIGHUP that is ignored", """
        import signal, time
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        print('ready', flush=True); time.sleep(1.5); print('survived')""", after=_send(signal.SIGHUP)),
    Odd("no standard input", "import sys; print(sys.stdin)", shell='"$@" <&-'),
    Odd("no standard output", "import sys; print(sys.stdout, file=sys.stderr)", shell='"$@" >&-'),
    Odd("it closes its own descriptors", "import os; os.write(2, b'a'); os.close(1); os.close(2); os._exit(3)"),
    Odd("its output thrown away", "print('x' * 100)", shell='"$@" >/dev/null 2>&1'),
    Odd("both streams into one file", """
        import os
        for n in range(50): os.write(1, b'o%d ' % n)
        os.write(2, b'end')""", shell='"$@" >both; cat both'),
    Odd("a reader that goes away", "for n in range(100000): print(n)", shell='"$@" 2>/dev/null | head -n 1'),
    Odd("a reader of errors that goes away", """
        import os, sys
        for n in range(300000): os.write(2, b'%d\\n' % n)
        open('wrote it all', 'w')""", shell='"$@" 2>&1 >/dev/null | head -n 1'),
    Odd("an extra descriptor", "import os; os.write(9, b'nine')", shell='"$@" 9>nine'),
    Odd("100 MB of output", "import sys; b = b'y' * 9999 + b'\\n'\nfor _ in range(10000): sys.stdout.buffer.write(b)"),
    Odd("100 MB of errors", "import sys; b = b'y' * 9999 + b'\\n'\nfor _ in range(10000): sys.stderr.buffer.write(b)"),
    Odd("a line of 60 MB in errors", "import os\nfor _ in range(960): os.write(2, b'z' * 65536)"),
    Odd("a log's line of 30 MB", f"import os; os.write(2, {STAMP!r}.encode())\nfor _ in range(480): os.write(2, b'z' * 65536)"),
    Odd("binary", "import os; d = bytes(range(256)) * 500; os.write(1, d); os.write(2, d)"),
    Odd("lines like torch's", f"import sys\nfor n in range(300): print({STAMP!r}, n, file=sys.stderr)\nprint('end', file=sys.stderr, end='')"),
    Odd("a prompt without an end", "import sys, time; sys.stderr.write('V'); sys.stderr.flush(); time.sleep(.3)\nsys.stderr.write('1121 x')"),
    Odd("what it reads", "import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * 1_000_000),
    Odd("a terminal wanted", "import os, sys; print(os.isatty(0), os.isatty(1)); print(os.get_terminal_size(1))",
        shell="script -qec {command} /dev/null", needs="/script"),
    Odd("-I", f"import sys; {MODULES}", words=("-I", "prog.py")),
    Odd("-E -s", f"import sys; {MODULES}", words=("-Es", "prog.py")),
    Odd("-S", f"import sys; {MODULES}", words=("-S", "prog.py")),
    Odd("-c", words=("-c", f"import sys; {MODULES}")),
    Odd("-m", words=("-m", "prog"), code=f"import sys; {MODULES}"),
    Odd("a folder", words=("app",), files={"app/__main__.py": f"import sys; {MODULES}"}),
    Odd("standard input as the program", words=("-",), stdin=b"print(__name__)"),
    Odd("-X dev -W error", "import sys; open('left.txt', 'w').write('x'); print(sys.warnoptions)",
        words=("-X", "dev", "-W", "error", "prog.py")),
    Odd("-O -B -u", "import sys; print(__debug__, sys.flags)", words=("-OBu", "prog.py")),
    Odd("python -m pdb", "x = 1\nprint(x)", words=("-m", "pdb", "prog.py"), stdin=b"n\nn\np x\nq\n"),
    Odd("python -m trace", "print(1)", words=("-m", "trace", "--count", "-C", "counts", "prog.py")),
    Odd("python -m cProfile", "print(1)", words=("-m", "cProfile", "-o", "/dev/null", "prog.py")),
    Odd("gdb", "print(1)", program="gdb", needs="/gdb",
        words=("-q", "-batch", "-ex", "run", "--args", PYTHON, "prog.py"),
        shell='"$@" 2>/dev/null | grep -v Thread | grep -v process'),
    Odd("coverage", "print(1)", words=("-m", "coverage", "run", "prog.py"), needs="coverage"),
    Odd("pytest that finds nothing", words=("-m", "pytest", "-q", "-p", "no:cacheprovider"), needs="pytest",
        shell='"$@" | sed "s/ in .*s//"; exit ${PIPESTATUS[0]}'),
    Odd("pytest-xdist", words=("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"), needs="xdist",
        files={"test_a.py": "def test_a(): pass\ndef test_b(): assert 0"},
        shell='"$@" | sed -n "/ in /{s/ in .*s//;p}"; exit ${PIPESTATUS[0]}'),
    Odd("a capture in a capture", "print('inner')", words=("-m", "inspector.cli", "capture", "-q", "-o", "inner-run",
        "--", PYTHON, "prog.py"), env={"PYTHONPATH": str(ROOT)}),
    Odd("a shell", program="sh", words=("-c", "echo a; echo b >&2; exit 6")),
    Odd("a home that can't be written", "print('on')", shell='HOME=/proc XDG_STATE_HOME=/proc/x "$@"'),
    Odd("no home, no path", "print('on')", shell='HOME= PATH= "$@"'),
    Odd("another locale", "import sys; print(sys.stdout.encoding, '\\u00e4')", env={"LC_ALL": "C", "PYTHONUTF8": "0"}),
    Odd("threads and atexit", """
        import atexit, threading
        atexit.register(print, 'bye')
        t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
        print(threading.active_count())"""),
    Odd("warnings", "import warnings; warnings.warn('once'); warnings.warn('once', stacklevel=2)"),
    Odd("it looks at the import system", """
        import sys, importlib
        importlib.invalidate_caches()
        sys.modules.pop('colorsys', None)
        import colorsys; importlib.reload(colorsys)
        print(colorsys.__spec__.loader.__class__.__name__)"""),
    Odd("it clears sys.meta_path and the path hooks", """
        import sys
        sys.meta_path[:] = [f for f in sys.meta_path if getattr(f, '__name__', '') == 'PathFinder']
        import colorsys; print('ok')"""),
    Odd("descriptors at the start", "import os; print(sorted(n for n in map(int, os.listdir('/proc/self/fd')) if n < 9))"),
    Odd("a full disk", "import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')"),
    Odd("memory limited", "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2)\nprint('on')"),
    Odd("files limited", "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))\nprint('on')"),
    Odd("a daemon left behind", """
        import os, sys, time
        if not os.fork():
            os.setsid(); time.sleep(0.5); open('daemon', 'w').close(); os._exit(0)
        print('parent')""", shell='"$@"; sleep 1'),
    Odd("what a process inherits", STATE),
    Odd("all descriptors", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"),
    Odd("descriptors after a fork and an exec", "import os; os.execv('/bin/ls', ['ls', '/proc/self/fd'])"),
    Odd("os.execv of itself", """
        import os, sys
        if len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, 'prog.py', 'again'])
        print(sys.argv, sys.path[1:])"""),
    Odd("os.execve with an empty environment", """
        import os, sys
        os.execve(sys.executable, [sys.executable, '-c', 'import os; print(sorted(os.environ))'], {})"""),
    Odd("SIGUSR1 from a batch system", """
        import signal, time
        signal.signal(signal.SIGUSR1, lambda *_: (print('saved', flush=True), exit(0)))
        print('ready', flush=True); time.sleep(20)""", after=_send(signal.SIGUSR1)),
    Odd("SIGUSR2 that nobody takes", "import time; print('ready', flush=True); time.sleep(20)",
        after=_send(signal.SIGUSR2)),
    Odd("SIGINT from outside, taken", """
        import time
        print('ready', flush=True)
        try: time.sleep(20)
        except KeyboardInterrupt: print('stopped'); raise SystemExit(7)""", after=_send(signal.SIGINT)),
    Odd("an alarm", "import signal, time; signal.alarm(1); time.sleep(5)"),
    Odd("signals to itself and a wakeup descriptor", """
        import os, signal
        r, w = os.pipe(); os.set_blocking(w, False); signal.set_wakeup_fd(w)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        os.kill(os.getpid(), signal.SIGUSR1); print(os.read(r, 1))"""),
    Odd("faulthandler", "import faulthandler, os; faulthandler.enable(); os.kill(os.getpid(), 11)",
        shell='"$@" 2>&1 | sed "s/0x[0-9a-f]*//"; exit ${PIPESTATUS[0]}'),
    Odd("faulthandler, later", """
        import faulthandler, time
        faulthandler.dump_traceback_later(0.3, exit=True); time.sleep(5)""",
        shell='"$@" 2>&1 | sed "s/0x[0-9a-f]*//"; exit ${PIPESTATUS[0]}'),
    Odd("sys.settrace of its own lines", """
        import sys
        seen = []
        def trace(frame, event, _):
            if frame.f_code.co_filename == __file__: seen.append((event, frame.f_lineno))
            return trace
        def f(n): return [f(n - 1) for _ in range(n)]
        sys.settrace(trace); f(3); import colorsys; sys.settrace(None)
        print(seen)"""),
    Odd("sys.setprofile and threading.settrace", """
        import sys, threading
        seen = []
        hook = lambda frame, event, arg: seen.append(event) if frame.f_code.co_name == 'g' else None
        def g(): return len('x')
        threading.setprofile(hook); sys.setprofile(hook); g()
        t = threading.Thread(target=g); t.start(); t.join(); sys.setprofile(None); print(seen)"""),
    Odd("sys.monitoring and audit hooks", """
        import sys
        names = []
        sys.addaudithook(lambda name, args: names.append((name, args[:1])) if name == 'import' else None)
        import colorsys, wave; print(names)"""),
    Odd("atexit, finalizers and daemon threads", """
        import atexit, threading, time, weakref
        class A: pass
        a = A(); weakref.finalize(a, print, 'finalized')
        for n in range(3): atexit.register(print, n)
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print(threading.enumerate()[0].name, threading.active_count())"""),
    Odd("a thread that fails, and an error that nobody saw", """
        import threading
        t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()
        class A:
            def __del__(self): raise ValueError('late')
        A()""", shell='"$@" 2>&1 | sed "s/0x[0-9a-f]*//"'),
    Odd("asyncio", """
        import asyncio
        async def main():
            p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
            print(await p.communicate(b'through cat'), await asyncio.gather(*[asyncio.sleep(0, n) for n in range(3)]))
        asyncio.run(main())"""),
    Odd("a zipapp", words=("app.pyz",), shell="cd app && python3 -m zipapp . -o ../app.pyz && cd .. && \"$@\"",
        files={"app/__main__.py": f"import sys, helper; {MODULES}", "app/helper.py": ""}),
    Odd("-m with a package", words=("-m", "package.inner", "--flag", "x y"),
        files={"package/__init__.py": "", "package/inner/__init__.py": "", "package/inner/__main__.py": f"import sys; {MODULES}"}),
    Odd("-c with an odd argument", words=("-c", "import sys; print(sys.argv)", "--", "-o", "a\nb", "", "'\"$x")),
    Odd("a program on standard input, no words", words=(), stdin=b"import sys\nprint(sys.argv, __name__)\n"),
    Odd("an interactive interpreter", words=("-i", "-q"), stdin=b"x = 2\nx + 1\n1/0\nexit(4)\n"),
    Odd("a script that is not there", words=("gone.py",)),
    Odd("a script without syntax", "def f(:\n  pass"),
    Odd("a NUL in the script", "x = 1\0"),
    Odd("a name that is no text", "print(__file__.encode('utf-8', 'surrogateescape'))",
        shell='mv prog.py $\'p\\xff.py\'; "$@"', words=("p\udcff.py",)),
    *(
        Odd(f"python {' '.join(options)}", f"import sys; {MODULES}", words=(*options, "prog.py"))
        for options in (("-P",), ("-X", "utf8=0"), ("-X", "faulthandler"), ("-X", "frozen_modules=off"), ("-bb",),
                        ("-X", "int_max_str_digits=700"), ("-X", "no_debug_ranges"), ("-X", "tracemalloc=5"), ("-x",), ("-W", "ignore", "-v"))
        if "-v" not in options
    ),
    *(
        Odd(f"{name}={value!r}", f"import sys, os; print({{*'abcdefgh'}} if {name!r} == 'PYTHONHASHSEED' else '', os.environ.get({name!r})); {MODULES}", env={name: value})
        for name, value in (("PYTHONHASHSEED", "0"), ("PYTHONSAFEPATH", "1"), ("PYTHONWARNINGS", "error"), ("PYTHONOPTIMIZE", "2"),
                            ("PYTHONNOUSERSITE", "1"), ("PYTHONUNBUFFERED", "1"), ("PYTHONIOENCODING", "latin-1"), ("PYTHONDEVMODE", "1"),
                            ("PYTHONMALLOC", "debug"), ("PYTHONBREAKPOINT", "0"), ("PYTHONINSPECT", ""), ("PYTHONTRACEMALLOC", "2"))
    ),
    *(
        Odd(f"PYTHONPATH={value!r}", f"import sys; {MODULES}", env={"PYTHONPATH": value}, files={"lib/a.py": "", "x:y/b.py": ""})
        for value in ("", ":", ".", "lib", "lib::", ":lib", "lib:lib:/nowhere", "no.zip", "../case/lib")
    ),
    Odd("a package that replaces an import with a class", """
        import sys
        class M: __path__ = []; MINE = 5
        sys.modules['json'] = M(); import json; print(json.MINE)"""),
    Odd("it replaces builtins", """
        import builtins
        old = builtins.__import__
        builtins.__import__ = lambda *a, **k: old(*a, **k)
        builtins.open = builtins.len = None
        import colorsys; print('ok')"""),
    Odd("it removes what is known of the interpreter", """
        import os, sys
        for name in ('INSPECTOR_BOOTSTRAP', 'PYTHONPATH', 'HOME', 'PATH'): os.environ.pop(name, None)
        sys.path.clear(); sys.modules.pop('site', None); print('ok')"""),
    Odd("it changes its folder and removes it", """
        import os, shutil
        os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')
        try: os.getcwd()
        except OSError as error: print(error)"""),
    Odd("logging of its own", """
        import logging, sys
        logging.basicConfig(level=5, format='%(levelname)s %(name)s %(message)s')
        logging.getLogger('torch').warning('mine'); logging.getLogger('x').log(5, 'low')
        print(logging.getLogger('torch').handlers, logging.root.handlers)"""),
    Odd("a debugger's breakpoint", "x = 3\nbreakpoint()\nprint(x)", stdin=b"p x + 1\nc\n"),
    Odd("doctest and unittest", words=("-m", "unittest", "-v", "prog"), shell='"$@" 2>&1 | sed "s/ in .*s$//"', code="""
        import unittest
        class T(unittest.TestCase):
            def test_a(self): pass
            def test_b(self): self.assertEqual(1, 2)"""),
    Odd("timeit, compileall and venv", words=("-m", "compileall", "-q", "."), files={"a/b.py": "x = 1"}, shell='"$@"; find . -name "*.pyc" | wc -l'),
    Odd("subprocesses of all kinds", """
        import subprocess, sys
        for extra in ({}, {'close_fds': False}, {'env': {}}, {'start_new_session': True}):
            print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.path[1:])'], capture_output=True, text=True, **extra))"""),
    Odd("a pool that is killed", """
        import concurrent.futures as c, os, signal
        def die(): os.kill(os.getpid(), signal.SIGKILL)
        if __name__ == '__main__':
            with c.ProcessPoolExecutor(1) as pool:
                try: pool.submit(die).result()
                except Exception as error: print(type(error).__name__)"""),
    Odd("shared memory and semaphores", """
        from multiprocessing import shared_memory, Lock, Queue, Process
        m = shared_memory.SharedMemory(create=True, size=10); m.buf[0] = 7; print(m.buf[0]); m.close(); m.unlink()
        def put(q): q.put(1)
        if __name__ == '__main__':
            q = Queue(); p = Process(target=put, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)"""),
    Odd("a server on a socket", """
        import socket, threading
        s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); p, _ = s.accept()
        c.sendall(b'hi'); print(p.recv(2))"""),
    Odd("curses and colours", "import curses; curses.setupterm(); print(curses.tigetnum('colors'))", shell="TERM=xterm script -qec {command} /dev/null", needs="/script"),
    Odd("a progress bar on a terminal", """
        import sys, time
        for n in range(20): print(f'\\r{n:3}%', end='', file=sys.stderr, flush=True); time.sleep(0.01)
        print(file=sys.stderr)""", shell="script -qec {command} /dev/null", needs="/script"),
    Odd("errors before output", "import os\nfor n in range(200): os.write(2, b'e%d\\n' % n); os.write(1, b'o%d\\n' % n)"),
    Odd("a Jupyter notebook that fails", NOTEBOOK, needs="nbconvert", program=PYTHON,
        words=("-m", "nbconvert", "--to", "markdown", "--allow-errors", "--execute", "--stdout", "prog.py", "--log-level=CRITICAL"),
        shell='"$@" 2>/dev/null'),
    Odd("coverage, its report", "print(1)\nif 0:\n    print(2)", needs="coverage", words=("-m", "coverage", "run", "prog.py"),
        shell=f'"$@"; {PYTHON} -m coverage report; rm .coverage'),
    Odd("pytest-xdist with a worker that crashes", words=("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"), needs="xdist",
        files={"test_a.py": "import os\ndef test_a(): os._exit(3)\ndef test_b(): pass"},
        shell='"$@" 2>/dev/null | sed -n "/ in /{s/ in .*s//;p}"; exit ${PIPESTATUS[0]}'),
    Odd("torchrun with a rank that dies", """
        import os, sys, time, torch.distributed as d
        d.init_process_group('gloo')
        if d.get_rank() == 1: os.kill(os.getpid(), 9)
        time.sleep(60)""", needs="torch", words=("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29517", "prog.py"),
        shell='"$@" 2>/dev/null'),
    Odd("torch, spawn and forkserver", """
        import multiprocessing as m
        def work(x):
            import torch
            return torch.ones(x).sum().item()
        if __name__ == '__main__':
            for how in ('spawn', 'forkserver'):
                with m.get_context(how).Pool(1) as pool: print(pool.map(work, range(3)))""", needs="torch"),
    Odd("torch, logging of its own and TORCH_LOGS", f"""
        import logging, torch
        torch._logging.set_logs(graph_breaks=True)
        {COMPILED.strip().splitlines()[1]}
        print(f(torch.ones(4)))""", needs="torch",
        shell='"$@" 2>/dev/null | head -1'),
    Odd("torch, compiled by Inductor", """
        import torch
        @torch.compile
        def f(x): return torch.softmax(x * 2, -1)
        x = torch.ones(8, 8, requires_grad=True); f(x).sum().backward(); print(x.grad.sum().item())""", needs="torch"),
    Odd("torch, compiled", """
        import torch
        f = torch.compile(lambda x: (x + 1).relu() * 2, backend='eager')
        print(f(torch.ones(4)))""", needs="torch"),
    Odd("torch, an error in compiled code", """
        import torch
        @torch.compile(backend='eager')
        def f(x): return x @ x
        try: f(torch.ones(3, 4))
        except Exception as error: print(type(error).__name__)""", needs="torch", shell='"$@" 2>/dev/null'),
    # -- how it is started
    Odd("a pipe as the script", "print(__file__[:8] == '/dev/fd/', __name__)", words=("/dev/fd/8",), shell='"$@" 8<prog.py'),
    Odd("a script behind a link", f"import sys; print(__file__); {MODULES}", words=("links/start.py",), shell='mkdir links; ln -s ../prog.py links/start.py; "$@"'),
    Odd("env -i", "import os; print(sorted(n for n in os.environ if not n.startswith(('TORCH', 'TRITON', 'INSPECTOR', 'PYTHONPATH', 'PWD', 'SHLVL', '_'))))",
        shell='env -i "$@"'),
    Odd("nohup", "import signal; print(signal.getsignal(signal.SIGHUP))", shell='nohup "$@" </dev/null 2>/dev/null | cat'),
    Odd("signals ignored by who starts it", "import signal as s; print([n.name for n in (s.SIGINT, s.SIGQUIT, s.SIGUSR1, s.SIGTERM) if s.getsignal(n) == s.SIG_IGN])",
        shell="trap '' INT QUIT USR1; \"$@\""),
    Odd("timeout", "import time; print('on', flush=True); time.sleep(30)", shell='timeout -k 5 3 "$@"'),
    Odd("a session of its own", "import os; print(os.getsid(0) == os.getppid() or os.getpgrp() == os.getpid() or 'in a group')\n", shell='setsid -w "$@" | cat >/dev/null'),
    Odd("umask 777", "import os; print(oct(os.umask(0)))", shell='umask 0277; "$@"'),
    Odd("xargs", "import sys; print(sys.argv[1:], sys.stdin.read())", shell='printf "a b c" | xargs "$@"'),
    Odd("a shebang", "#!/usr/bin/env python3\nimport sys; print(sys.argv)", program="sh", words=("-c", "chmod +x prog.py; ./prog.py 1 2")),
    Odd("make", program="make", needs="/make", words=("-s",), files={"Makefile": "all:\n\t@echo made; exit 3\n"}),
    Odd("100,000 characters of words", "import sys; print(len(sys.argv), sum(map(len, sys.argv[1:])))", words=("prog.py", *("w" * 100 for _ in range(1000)))),
    Odd("a program that is not Python", program="ls", words=("-a",)),
    # -- what it does to its process
    Odd("it stops and goes on", "import os, signal, subprocess, sys\nsubprocess.Popen(['sh', '-c', f'sleep 1; kill -CONT {os.getpid()}'])\nos.kill(os.getpid(), signal.SIGSTOP)\nprint('went on')"),
    Odd("it kills its group", "import os, signal; print('x', flush=True); os.setpgid(0, 0); os.killpg(0, signal.SIGTERM)"),
    Odd("children that nobody waits for", "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor n in range(5):\n    if not os.fork(): os._exit(n)\ntime.sleep(.3)\ntry: os.wait()\nexcept ChildProcessError as error: print(error)"),
    Odd("posix_spawn", "import os, sys\npid = os.posix_spawn(sys.executable, [sys.executable, '-c', 'import sys; print(sys.path[1:]); sys.exit(8)'], os.environ, setsigmask=[10])\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
    Odd("a name and a death signal", "import ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.prctl(15, b'renamed'), open('/proc/self/comm').read(), libc.prctl(1, 15))\nn = ctypes.c_int(); libc.prctl(2, ctypes.byref(n)); print(n.value)"),
    Odd("a subreaper", "import ctypes, os, time\nctypes.CDLL(None).prctl(36, 1)\nif not os.fork():\n    if not os.fork(): time.sleep(.5); os._exit(6)\n    os._exit(5)\nprint(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)))"),
    Odd("a native crash in a thread", "import ctypes, threading\nt = threading.Thread(target=lambda: ctypes.string_at(0)); t.start(); t.join()"),
    Odd("a native stack that overflows", "import sys, threading\nsys.setrecursionlimit(10**9); threading.stack_size(1 << 18)\nclass A:\n    def __repr__(self): return repr(self)\nt = threading.Thread(target=repr, args=(A(),)); t.start(); t.join()", shell='{ "$@"; exit $?; } 2>/dev/null'),
    Odd("a file that grows too large", "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nf = open('big', 'wb', buffering=0)\ntry: f.write(b'x' * 5000); f.write(b'y')\nexcept OSError as error: print(error)"),
    Odd("time of the processor limited", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (2, 3))\nwhile True: pass"),
    Odd("output set not to block", "import os\nos.set_blocking(1, False); os.set_blocking(2, False)\nfor n in range(500):\n    try: os.write(1, b'a' * 100); os.write(2, b'b' * 100)\n    except BlockingIOError: pass\nprint(os.get_blocking(1))", shell='"$@" 2>/dev/null'),
    Odd("output opened again by its path", "for path in ('/dev/stdout', '/proc/self/fd/1'):\n    with open(path, 'a') as out: out.write(path + '\\n')"),
    Odd("a daemon that writes to errors later", "import os, sys, time\nif not os.fork():\n    os.setsid(); time.sleep(1); os.write(2, b'later'); os._exit(0)\nos.write(2, b'first ')", shell='"$@"; sleep 2'),
    Odd("exit in atexit, and in a thread", "import atexit, os, threading, time\natexit.register(os._exit, 44)\nthreading.Thread(target=lambda: time.sleep(.2)).start()"),
    Odd("a terminal that is asked for by name", "try: open('/dev/tty')\nexcept OSError as error: print(error.errno)", shell='setsid -w "$@"'),
    Odd("locks on its output", "import fcntl\nf = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(fcntl.flock(1, fcntl.LOCK_EX | fcntl.LOCK_NB))"),
    # -- what it does to its interpreter
    Odd("a zip on PYTHONPATH with a sitecustomize", "import sitecustomize, helper; print(sitecustomize.MINE, helper.MINE)", env={"PYTHONPATH": "lib.zip"},
        files={"z/sitecustomize.py": "MINE = 3", "z/helper.py": "MINE = 4"}, shell='cd z; python3 -c "import zipfile; z = zipfile.ZipFile(\'../lib.zip\', \'w\'); [z.write(n) for n in (\'helper.py\', \'sitecustomize.py\')]"; cd ..; "$@"'),
    Odd("its own usercustomize", "import sys; print('usercustomize' in sys.modules)", env={"PYTHONUSERBASE": "base", "PYTHONPATH": "lib"}, files={"lib/usercustomize.py": "print('user')"}),
    Odd("a virtual environment without packages", "import sys; print(sys.prefix != sys.base_prefix, sys.path[1:] == [])", program="bash",
        words=("-c", f"{PYTHON} -m venv --without-pip v && v/bin/python prog.py; rm -r v")),
    *(
        Odd(f"another interpreter, {name}", f"import sys; {MODULES}", program="bash", words=("-c", f"for p in ~/.pyenv/versions/{name}.*/bin/python; do $p prog.py; done"))
        for name in ("3.9", "3.10", "3.12", "3.13")
    ),
    Odd("subinterpreters", "import _xxsubinterpreters as x\ni = x.create(); x.run_string(i, 'import sys, json; print(json.__name__, sys.path[1:])'); x.destroy(i)"),
    Odd("exec of a file and runpy", "import runpy\nprint(sorted(runpy.run_path('other.py'))); exec(open('other.py').read()); print(MINE)", files={"other.py": "MINE = 9"}),
    Odd("import of modules by their source", "import importlib.util as u, sys\ns = u.spec_from_file_location('torch', 'other.py'); m = u.module_from_spec(s); sys.modules['torch'] = m; s.loader.exec_module(m)\nimport torch; print(torch.MINE, torch.__spec__.origin)", files={"other.py": "MINE = 9"}),
    Odd("a finder that comes first", "import sys\nclass F:\n    seen = []\n    def find_spec(self, name, path=None, target=None): self.seen.append(name)\nsys.meta_path.insert(0, F())\nimport wave, colorsys; print(F.seen, [type(f).__name__ for f in sys.meta_path[1:]][-3:])"),
    Odd("what the collector and the tracer hear", "import gc, sys, tracemalloc\nprint(gc.callbacks, gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), sys.gettrace(), sys.getprofile(), tracemalloc.is_tracing(), sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__)"),
    Odd("-X importtime", "import colorsys", words=("-X", "importtime", "prog.py"), shell='"$@" 2>&1 | grep -c colorsys'),
    Odd("doctest of its own", 'def f():\n    """\n    >>> f()\n    2\n    """\n    return 1', words=("-m", "doctest", "prog.py")),
    Odd("json.tool beside its own json", words=("-m", "json.tool"), stdin=b"[1]", files={"json.py": "MINE = 1"}),
    Odd("a server that is interrupted", "import http.server, threading, urllib.request as r\ns = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=s.serve_forever, daemon=True).start()\nprint(len(r.urlopen(f'http://127.0.0.1:{s.server_port}/prog.py').read()) > 99)", shell='"$@" 2>/dev/null'),
    Odd("torch in a thread, and fork after it", "import threading\ndef work():\n    global torch\n    import torch\nt = threading.Thread(target=work); t.start(); t.join()\nimport os\nif not os.fork(): print(torch.ones(2).sum().item(), flush=True); os._exit(0)\nprint(os.wait()[1])", needs="torch"),
    Odd("torch, workers of a loader", "import torch\nfrom torch.utils.data import DataLoader\nprint([x.tolist() for x in DataLoader(range(6), batch_size=2, num_workers=2)])", needs="torch", shell='"$@" 2>/dev/null'),
]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    code: int
    out: bytes
    err: bytes
    files: tuple[tuple[str, int], ...]
    seconds: float


def run(case: Odd, folder: Path, captured: bool) -> Outcome:
    """One run in `folder`, which is made and removed."""
    folder.mkdir(parents=True)
    for name, text in {"prog.py": textwrap.dedent(case.code), **case.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    kept = folder.with_name(f"{folder.name}-run")
    words = [shutil.which(case.program) or case.program, *case.words]
    if captured:
        given = [f"--env={name}={value}" for name, value in case.env.items()]
        words = [*CLI, OURS, "capture", "-q", *given, "-o", str(kept), "--", *words]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({} if captured else case.env)}
    if case.shell:
        script = case.shell.replace("{command}", shlex.quote(shlex.join(words)))
        words = ["bash", "-c", script, "bash", *words]
    started = time.monotonic()
    with (folder / ".out").open("wb") as out, (folder / ".err").open("wb") as err:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=err
        )
        assert process.stdin is not None
        if case.after is not None:
            while b"ready" not in (folder / ".out").read_bytes() and process.poll() is None:
                time.sleep(0.05)
            case.after(process.pid)
        try:
            process.communicate(case.stdin, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    seconds = time.monotonic() - started
    texts = [(folder / name).read_bytes() for name in (".out", ".err")]
    files = tuple(
        (str(path.relative_to(folder)), path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".out", ".err") and "inner-run" not in path.parts
    )
    shutil.rmtree(folder)
    shutil.rmtree(kept, ignore_errors=True)
    # As a shell tells a signal, and as we do.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Outcome(code, texts[0], texts[1], files, seconds)


def differences(plain: Outcome, captured: Outcome) -> list[str]:
    pairs = (
        ("exit code", plain.code, captured.code),
        ("output", plain.out, captured.out),
        ("errors", plain.err, captured.err),
        ("files", plain.files, captured.files),
    )
    return [
        f"{what}: {repr(before)[-300:]} became {repr(after)[-600:]}"
        for what, before, after in pairs
        if before != after
    ]


def is_there(case: Odd) -> bool:
    if case.needs.startswith("/"):
        return shutil.which(case.needs[1:]) is not None
    return not case.needs or find_spec(case.needs) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-k", dest="text", default="", help="only cases with this in their name")
    chosen = [case for case in CASES if parser.parse_args().text in case.name]
    wrong = ran = 0
    with tempfile.TemporaryDirectory(prefix="odd-") as parent:
        for case in chosen:
            if not is_there(case):
                print(f"{'not here':>10}  {case.name}", flush=True)
                continue
            folder = Path(parent) / "case"
            plain, captured = run(case, folder, captured=False), run(case, folder, captured=True)
            said = differences(plain, captured)
            took = f"{plain.seconds:4.1f} {captured.seconds:5.1f} s"
            print(
                f"{'DIFFERS' if said else 'same':>10}  {took}  {case.name}", *said, sep="\n      ", flush=True
            )
            wrong, ran = wrong + bool(said), ran + 1
    print(f"{ran} programs, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
