/**
 * Ways out of the sandbox, and ways to use this machine up. Each must be stopped and told, leave
 * nothing behind, and not disturb the next call.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { keyFromSeed } from '@tandem-rl/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { rightOf } from '../../../../test/kit/results.js'
import { describeWithPython, markedSandbox, processesWith, temporaryFolders } from '../../../../test/kit/sandboxes.js'
import { pythonTool } from '../../src/tools/pythonTool.js'

interface Attempt {
  readonly title: string
  /** Python. It prints ESCAPED if it can do what it must not. */
  readonly code: string
  /** The message to the policy. */
  readonly told: RegExp
  /** Milliseconds, for programs that never end by themselves. */
  readonly wallMs?: number
}

const attempt = (title: string, told: RegExp, code: string, wallMs?: number): Attempt => ({
  ...{ title, told, code },
  ...(wallMs !== undefined && { wallMs }),
})

const ERRNO = 'import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n'

/** A system call by number on x86-64 and on arm64, which must be refused. */
const systemCall = (title: string, x64: number, arm64: number, args = '0, 0, 0, 0'): Attempt =>
  attempt(
    title,
    /^refused (1|38|97)$/,
    `${ERRNO}number = ${x64} if os.uname().machine == 'x86_64' else ${arm64}
print('ESCAPED' if libc.syscall(number, ${args}) >= 0 else 'refused %d' % ctypes.get_errno())`,
  )

/** Statements that the system must refuse. */
const refusedBySystem = (title: string, code: string): Attempt =>
  attempt(
    title,
    /^refused: /,
    `import os, socket, signal, resource
try:
${code.replace(/^/gm, '    ')}
    print('ESCAPED')
except (OSError, ValueError) as error:
    print('refused:', error)`,
  )

/** For what waits, and for what keeps a processor busy. */
const SHORT = 1000
const BUSY = 500

const EXHAUSTION: readonly Attempt[] = [
  attempt('a fork bomb', /BlockingIOError|ran longer/, 'import os\nwhile True: os.fork()', SHORT),
  attempt(
    'a fork bomb of shells',
    /ran longer|fork|exit code/,
    'import os; os.system("f(){ f|f& }; f"); import time; time.sleep(99)',
    SHORT,
  ),
  attempt('a memory bomb', /MemoryError/, 'x = bytearray(10 ** 11)'),
  attempt('a memory bomb bit by bit', /MemoryError/, 'x = []\nwhile True: x.append(bytearray(2 ** 20))'),
  attempt(
    'a memory bomb of many processes, each of which is within its limit',
    /more than 192 MiB of memory/,
    `import os, time
for _ in range(6):
    if os.fork() == 0:
        x = bytearray(100 << 20)
        for i in range(0, len(x), 4096): x[i] = 1
        time.sleep(1000)
time.sleep(1000)`,
    60_000,
  ),
  attempt(
    'a full disk',
    /No space left on device|File too large/,
    'f = open("big", "wb")\nwhile True: f.write(bytes(10 ** 6))',
  ),
  attempt('a file with a huge hole', /File too large/, 'open("hole", "wb").truncate(2 ** 40)'),
  attempt(
    'files without end',
    /files took more|No space left/,
    'i = 0\nwhile True:\n    open(str(i), "w").close(); i += 1',
    60_000,
  ),
  attempt(
    'memory that is shared by file',
    /No space left|Cannot allocate|MemoryError|ended/,
    'import mmap\nx = [mmap.mmap(-1, 2 ** 24) for _ in range(100)]\nprint("ESCAPED")',
  ),
  attempt('an output without end', /it wrote too much output/, 'while True: print("x" * 10 ** 5)', 60_000),
  attempt(
    'outputs without end on both streams',
    /it wrote too much output/,
    'import sys\nwhile True: print("x" * 10 ** 5); print("y" * 10 ** 5, file=sys.stderr)',
    60_000,
  ),
  attempt('a sleep without end', /ran longer than 1 s/, 'import time\nwhile True: time.sleep(1000)', SHORT),
  attempt('a loop without end', /ran longer/, 'while True: pass', BUSY),
  attempt(
    'a loop that ignores every signal',
    /ended with exit code 137|processor time/,
    'import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except Exception: pass\nwhile True: pass',
    60_000,
  ),
  attempt(
    'a sleep that ignores SIGTERM',
    /ran longer/,
    'import signal, time\nsignal.signal(15, signal.SIG_IGN)\nsignal.signal(1, signal.SIG_IGN)\nwhile True: time.sleep(1000)',
    SHORT,
  ),
  attempt(
    'a daemon that outlives its parents',
    /^started$/,
    `import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(1000)
    os._exit(0)
print('started')`,
  ),
  attempt(
    'threads without end',
    /can't start new thread/,
    'import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()',
    60_000,
  ),
  refusedBySystem('open files without end', 'x = [open("/dev/null") for _ in range(10 ** 6)]'),
  attempt(
    'a recursion without end',
    /RecursionError|exit code 139|processor time|ran longer/,
    'import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f() + 1\nf()',
    BUSY,
  ),
  attempt('a number without end', /processor time|MemoryError|ran longer|exit code 137/, 'x = 9 ** 9 ** 9', BUSY),
  attempt(
    'a regular expression without end',
    /ran longer|processor time/,
    'import re; re.match("(a+)+$", "a" * 60 + "b")',
    BUSY,
  ),
  attempt(
    'zombies without end',
    /BlockingIOError/,
    'import os\nwhile True:\n    if os.fork() == 0: os._exit(0)',
    60_000,
  ),
  attempt(
    'pipes full of bytes without end',
    /OSError|ran longer|MemoryError/,
    'import os\nx = []\nwhile True:\n    r, w = os.pipe(); os.set_blocking(w, False); x.append((r, w)); os.write(w, bytes(60000))',
    SHORT,
  ),
  attempt(
    'sockets full of bytes without end',
    /more than 192 MiB of memory/,
    `import os, socket, time
for _ in range(10):
    if os.fork() == 0: break
kept = []
while len(kept) < 120:
    a, b = socket.socketpair(); kept += [a, b]
    a.setblocking(False)
    try:
        while True: a.send(bytes(50000))
    except OSError: pass
time.sleep(1000)`,
    60_000,
  ),
  attempt('an end without a word', /ended with exit code 7/, 'import os; os._exit(7)'),
  attempt('a crash', /ended with exit code 139/, 'import ctypes; ctypes.string_at(0)'),
  attempt(
    'outputs that are closed',
    /ended with|no output/,
    'import os\nfor fd in range(64):\n    try: os.close(fd)\n    except OSError: pass',
    60_000,
  ),
]

const hostSecret = `secret-${process.pid}`

const ESCAPES: readonly Attempt[] = [
  refusedBySystem('a connection to another machine', 'socket.create_connection(("1.1.1.1", 80), 5)'),
  refusedBySystem('a datagram', 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53))'),
  refusedBySystem('a name of the network', 'socket.getaddrinfo("example.com", 80)'),
  refusedBySystem('a server of its own, with buffers of megabytes', 'socket.create_server(("127.0.0.1", 0))'),
  refusedBySystem(
    'datagrams that stay when their sender is gone',
    'socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)',
  ),
  refusedBySystem(
    'a socket with a larger buffer',
    'socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10 ** 6)',
  ),
  refusedBySystem('to be spared when memory is short', 'open("/proc/self/oom_score_adj", "w").write("0")'),
  refusedBySystem('how this machine was started', 'print(open("/proc/cmdline").read())'),
  refusedBySystem('a raw socket', 'socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'),
  refusedBySystem('a socket to the host of a virtual machine', 'socket.socket(40, socket.SOCK_STREAM)'),
  refusedBySystem('a socket of the kernel', 'socket.socket(16, socket.SOCK_RAW, 0)'),
  refusedBySystem(
    'a unix socket of this machine',
    'import tempfile\nfor p in ["/run/docker.sock", "/run/dbus/system_bus_socket", tempfile.gettempdir() + "/.X11-unix/X0"]:\n    socket.socket(socket.AF_UNIX).connect(p)',
  ),
  refusedBySystem('passwords', 'print(open("/etc/shadow").read())'),
  refusedBySystem('files of the user', 'print(os.listdir("/root"), os.listdir("/home"))'),
  refusedBySystem(
    'the sources of this project',
    `print(open(${JSON.stringify(`${process.cwd()}/package.json`)}).read())`,
  ),
  refusedBySystem('a link to the outside', 'os.symlink("/etc/passwd", "link"); print(open("link").read())'),
  refusedBySystem('the outside by another root', 'print(open("/proc/1/root/etc/passwd").read())'),
  refusedBySystem('a path with many dots', 'print(open("../" * 50 + "root/.bashrc").read())'),
  refusedBySystem(
    'a device with the disk',
    'os.mknod("disk", 0o60666, os.makedev(254, 0)); open("disk", "rb").read(1)',
  ),
  refusedBySystem('a program of the system, replaced', 'open("/usr/bin/sh", "ab")'),
  refusedBySystem('a file in the root folder', 'open("/escape", "w")'),
  refusedBySystem('a file among the devices', 'open("/dev/escape", "w")'),
  refusedBySystem('settings of the kernel', 'open("/proc/sys/kernel/core_pattern", "w").write("x")'),
  refusedBySystem('the reset button', 'open("/proc/sysrq-trigger", "w").write("b")'),
  refusedBySystem('memory of the kernel', 'open("/proc/kcore", "rb").read(10)'),
  refusedBySystem('another user', 'os.setuid(0)'),
  refusedBySystem('another group', 'os.setgroups([0])'),
  refusedBySystem('more than its limits', 'resource.setrlimit(resource.RLIMIT_NPROC, (10 ** 4, 10 ** 4))'),
  refusedBySystem('a new root', 'os.chroot("/tmp")'),
  refusedBySystem('a higher priority', 'os.nice(-10)'),
  attempt(
    'the variables of this process',
    /^HOME LANG /,
    'import os; print(*sorted(k for k in os.environ if k in ("HOME", "LANG", "TANDEM_SECRET", "NODE_ENV", "VITEST")), "")',
  ),
  attempt(
    'variables of other processes',
    /^clean$/,
    `import glob\nseen = b""\nfor p in glob.glob("/proc/[0-9]*/environ"):\n    try: seen += open(p, "rb").read()\n    except OSError: pass\nprint("ESCAPED" if b"${hostSecret}" in seen or b"VITEST" in seen else "clean")`,
  ),
  attempt(
    'processes of this machine',
    /^alone$/,
    'import os\nprint("ESCAPED" if len([p for p in os.listdir("/proc") if p.isdigit()]) > 3 else "alone")',
  ),
  attempt(
    'the end of its first process',
    /^alive$/,
    'import os, time\nos.kill(1, 9); os.kill(1, 15)\ntime.sleep(0.05); print("alive")',
  ),
  attempt('the end of everybody', /No such process/, 'import os\nos.kill(-1, 9); print("alive")'),
  attempt(
    'a program with the rights of root',
    /^uid 65534$/,
    'import subprocess, glob\nfor p in ["/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd"]:\n    subprocess.run([p, "--version"], capture_output=True)\nprint("uid", __import__("os").geteuid())',
  ),
  attempt(
    'capabilities',
    /^0000000000000000$/,
    'print([l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0])',
  ),
  attempt(
    'words in a terminal',
    /^refused$/,
    `import fcntl
try:
    fcntl.ioctl(0, 0x5412, b"x"); print("ESCAPED")
except OSError: print("refused")`,
  ),
  attempt(
    'a terminal',
    /^refused$/,
    'import os\ntry:\n    os.open("/dev/tty", os.O_RDWR); print("ESCAPED")\nexcept OSError: print("refused")',
  ),
  systemCall('a look into another process', 101, 117, '16, 1, 0, 0'),
  systemCall('memory of another process', 310, 270, '1, 0, 0, 0, 0, 0'),
  systemCall('a mount', 165, 40, 'b"none", b"/tmp", b"tmpfs", 0, 0'),
  systemCall('an end of a mount', 166, 39, 'b"/usr", 2'),
  systemCall('new namespaces', 272, 97, '0x10000000'),
  systemCall('a child with new namespaces', 56, 220, '0x10000011, 0, 0, 0, 0'),
  systemCall('a program in the kernel', 321, 280, '0, 0, 0'),
  systemCall('keys', 250, 219, '0, -3, 0'),
  systemCall('asynchronous input', 425, 425, '8, 0'),
  systemCall('a ring of asynchronous input', 206, 0, '128, ctypes.byref(ctypes.c_ulong(0))'),
  systemCall('a watch of files', 294, 26, '0'),
  systemCall('memory without a file system', 319, 279, 'b"x", 0'),
  systemCall('memory of System V', 29, 194, '0, 10 ** 6, 0o1777'),
  systemCall('page faults by hand', 323, 282, '0'),
  systemCall('counters of the processor', 298, 241, '0, 0, -1, -1, 0'),
  systemCall('a module for the kernel', 175, 105, '0, 0, b""'),
  systemCall('another time', 227, 112, '0, 0'),
  systemCall('a file by its number', 304, 265, '-100, 0, 0'),
]

describeWithPython('an attempt', () => {
  const mark = `attempt-${process.pid}`
  const sandbox = markedSandbox(mark)
  const folders = temporaryFolders()
  const server = createServer((_, response) => response.end('ESCAPED'))

  beforeAll(async () => {
    process.env.TANDEM_SECRET = hostSecret
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })

  afterAll(async () => {
    delete process.env.TANDEM_SECRET
    await new Promise((resolve) => server.close(resolve))
  })

  const toolOf = (wallMs = 120_000) =>
    pythonTool({
      sandbox,
      limits: { wallMs, cpuSeconds: 1, memoryBytes: 192 * 2 ** 20, diskBytes: 8 * 2 ** 20, processes: 12 },
    })

  const call = async (tool: ReturnType<typeof toolOf>, code: string): Promise<string> => {
    const context = { state: tool.initial, key: keyFromSeed(0), signal: new AbortController().signal }
    const { content } = await rightOf(tool.call({ code }, context))
    return String(content)
  }

  const all = [...EXHAUSTION, ...ESCAPES]

  it.concurrent.each(all.map((each) => [each.title, each] as const))('at %s is stopped and told', async (_, each) => {
    const tool = toolOf(each.wallMs)
    const told = await call(tool, each.code)
    expect(told).not.toContain('ESCAPED')
    expect(told).toMatch(each.told)
    expect(told.length).toBeLessThan(200_000)
    expect(tool.idle()).toBe(0)
    expect(await call(tool, 'print(6 * 7)')).toBe('42')
  })

  it('at a server of this machine finds none', async () => {
    const { port } = server.address() as AddressInfo // it listens on a port
    const tool = toolOf()
    const code = `import urllib.request\nprint(urllib.request.urlopen("http://127.0.0.1:${port}").read())`
    expect(await call(tool, code)).toMatch(/Address family not supported/)
  })

  it('leaves no process and no file behind', () => {
    expect(processesWith(mark)).toEqual([])
    expect(temporaryFolders()).toEqual(folders)
  })
})
