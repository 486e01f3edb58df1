/**
 * Kernel objects that hold memory. A program that fills them is stopped at its memory limit, or the
 * kernel refuses to make them.
 */
import type { SandboxEnd } from '@tandem-rl/base'
import { afterAll, expect, it } from 'vitest'
import { rightOf } from '../../../../test/kit/results.js'
import { describeWithPython } from '../../../../test/kit/sandboxes.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'

const MIB = 2 ** 20

const LIMITS = { memoryBytes: 96 * MIB, diskBytes: 8 * MIB, processes: 12, openFiles: 512, wallMs: 120_000 }

const COMMON = `
import ctypes, fcntl, mmap, os, select, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def call(x64, arm64, *args):
    number = x64 if os.uname().machine == 'x86_64' else arm64
    return libc.syscall(number, *[ctypes.c_ulong(a) if isinstance(a, int) else a for a in args])
def told(result):
    print('made' if result >= 0 else 'refused %d' % ctypes.get_errno())
def mapped(size, flags, fd=-1):
    address = libc.mmap(None, size, 3, flags, fd, 0)
    print('refused %d' % ctypes.get_errno() if address == ctypes.c_void_p(-1).value else 'made')
def everywhere(fill):
    for _ in range(10):
        if os.fork() == 0: break
    kept = fill()
    time.sleep(1000)
`

interface Attempt {
  readonly title: string
  readonly code: string
  /** Default: `LIMITS`. */
  readonly memoryBytes?: number
}

/** Attempts that the kernel must refuse with one of these errors. */
const REFUSED: readonly (Attempt & { readonly errors: readonly number[] })[] = [
  { title: 'shared anonymous mappings', code: 'mapped(2 ** 20, 0x21)', errors: [12] },
  {
    title: 'shared mappings of a device of zeros',
    code: 'mapped(2 ** 20, 0x01, os.open("/dev/zero", os.O_RDWR))',
    errors: [19],
  },
  { title: 'reserved huge pages', code: 'mapped(2 ** 21, 0x40022)', errors: [12] },
  {
    title: 'pages in a pipe',
    code: `r, w = os.pipe()
page = ctypes.create_string_buffer(4096)
told(call(278, 75, w, struct.pack('QQ', ctypes.addressof(page), 4096), 1, 0))`,
    errors: [1],
  },
  {
    title: 'pages of a file in a pipe',
    code: `r, w = os.pipe()
open('a', 'wb').write(bytes(4096))
told(call(275, 76, os.open('a', os.O_RDONLY), 0, w, 0, 4096, 0))`,
    errors: [22],
  },
  {
    title: 'pages of a file that is sent to a socket',
    code: `a, b = socket.socketpair()
open('a', 'wb').write(bytes(4096))
told(call(40, 71, a.fileno(), os.open('a', os.O_RDONLY), 0, 4096))`,
    errors: [22],
  },
  { title: 'a longer pipe', code: 'told(libc.fcntl(os.pipe()[0], 1031, 2 ** 20))', errors: [1] },
  { title: 'watches of a folder', code: 'told(libc.fcntl(os.open(".", 0), 1026, 0x7fffffff))', errors: [1] },
  {
    title: 'locks without an owner',
    code: 'told(libc.fcntl(os.open("a", os.O_RDWR | os.O_CREAT), 37, bytes(32)))',
    errors: [1],
  },
  {
    title: 'filters of a socket',
    code: 'told(libc.setsockopt(socket.socket(socket.AF_UNIX).fileno(), 1, 26, bytes(16), 16))',
    errors: [1],
  },
  {
    title: 'access control lists',
    code: `open('a', 'w').close()
entries = [(1, 7, -1)] + [(2, 7, 65534)] * 8000 + [(4, 7, -1), (16, 7, -1), (32, 7, -1)]
try:
    os.setxattr('a', 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *e) for e in entries))
    print('made')
except OSError as error: print('refused', error.errno)`,
    errors: [95],
  },
  { title: 'futex tables', code: 'told(libc.prctl(78, 1, ctypes.c_ulong(2 ** 22), 0, 0))', errors: [22] },
  { title: 'filters of system calls', code: 'told(libc.prctl(22, 2, bytes(16), 0, 0))', errors: [22] },
  { title: 'filters of system calls, by the newer call', code: 'told(call(317, 277, 1, 0, bytes(16)))', errors: [1] },
  { title: 'Landlock rules', code: 'told(call(444, 444, 0, 0, 1))', errors: [1] },
  { title: 'message queues of System V', code: 'told(call(68, 186, 0, 0o1600))', errors: [1] },
  { title: 'semaphores of System V', code: 'told(call(64, 190, 0, 30000, 0o1600))', errors: [1] },
  { title: 'POSIX message queues', code: 'told(call(240, 180, b"q", 66, 0o600, 0))', errors: [1] },
  { title: 'secret memory', code: 'told(call(447, 447, 0))', errors: [1] },
  { title: 'objects of system calls that are not known yet', code: 'told(call(999, 999))', errors: [38] },
  { title: 'huge pages, once they are turned off', code: 'told(libc.prctl(41, 0, 0, 0, 0))', errors: [22] },
]

/** Attempts that are stopped at the limit of memory. Each process is within its own. */
const STOPPED: readonly Attempt[] = [
  {
    title: 'pages of several processes',
    code: `def fill():
    x = bytearray(20 << 20)
    for i in range(0, len(x), 4096): x[i] = 1
    return x
everywhere(fill)`,
  },
  {
    title: 'pages of processes that cannot be dumped',
    code: `def fill():
    libc.prctl(4, 0, 0, 0, 0)
    x = bytearray(20 << 20)
    for i in range(0, len(x), 4096): x[i] = 1
    return x
everywhere(fill)`,
  },
  {
    title: 'full pipes',
    code: `def fill():
    pipes = [os.pipe() for _ in range(240)]
    for _, w in pipes:
        os.set_blocking(w, False)
        try: os.write(w, bytes(65536))
        except OSError: pass
    return pipes
everywhere(fill)`,
  },
  {
    title: 'full sockets',
    code: `def fill():
    pairs = [socket.socketpair() for _ in range(60)]
    for a, _ in pairs:
        a.setblocking(False)
        try:
            while True: a.send(bytes(50000))
        except OSError: pass
    return pairs
everywhere(fill)`,
  },
  {
    title: 'epoll sets',
    code: `def fill():
    sets = [select.epoll() for _ in range(240)]
    r, _ = os.pipe()
    copies = [os.dup(r) for _ in range(240)]
    try:
        for each in sets:
            for copy in copies: each.register(copy)
    except OSError: pass # the kernel's limit for a user, on machines with little memory
    return sets, copies
everywhere(fill)`,
    memoryBytes: 64 * MIB,
  },
  {
    title: 'locks',
    code: `def fill():
    files = [open('%d-%d' % (os.getpid(), i), 'w') for i in range(40)]
    for file in files:
        for i in range(200): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * i)
    return files
everywhere(fill)`,
  },
  {
    title: 'mappings',
    code: `libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def fill():
    start = libc.mmap(None, 16000 * 4096, 0, 0x4022, -1, 0)
    for i in range(0, 16000, 2): libc.mprotect(start + i * 4096, 4096, 1)
everywhere(fill)`,
  },
]

describeWithPython('memory that kernel objects hold', () => {
  const sandbox = liveSandbox()
  afterAll(() => sandbox.close())

  const run = async (code: string, memoryBytes = LIMITS.memoryBytes): Promise<SandboxEnd> =>
    rightOf(sandbox.run({ command: 'python3', args: ['-c', COMMON + code], limits: { ...LIMITS, memoryBytes } }))

  const refused = sandbox.memory === 'cgroup' ? REFUSED.slice(1) : REFUSED // the kernel counts the first

  it.concurrent.each(refused.map((each) => [each.title, each] as const))('is refused to %s', async (_, each) => {
    const { stdout, stderr } = await run(each.code)
    expect(
      each.errors.map((error) => `refused ${error}\n`),
      stderr.text,
    ).toContain(stdout.text)
  })

  it.each(STOPPED.map((each) => [each.title, each] as const))('is limited in %s', async (_, { code, memoryBytes }) => {
    const { stderr, stopped } = await run(code, memoryBytes)
    expect(stopped, stderr.text).toBe('memory')
  })

  it('is not held by huge pages, which are off before the program starts', async () => {
    const { stdout } = await run(`
start = libc.mmap(None, 16 << 20, 3, 0x22, -1, 0)
libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(16 << 20), 14)
ctypes.memset(start, 1, 16 << 20)
print([line.split()[1] for line in open('/proc/self/status') if line.startswith('THP_enabled')])
print(sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('AnonHugePages')))`)
    expect(stdout.text).toBe("['0']\n0\n")
  })

  it('is not counted twice for a program that starts others', async () => {
    const { stdout, stderr, stopped } = await run(`
import subprocess
held = bytearray(55 << 20)
for i in range(0, len(held), 4096): held[i] = 1
end = time.time() + 3
while time.time() < end: subprocess.run(['true'])
print('done')`)
    expect([stopped, stdout.text], stderr.text).toEqual([null, 'done\n'])
  })

  it('leaves room for what programs do: copies, locks of a database, shared files, devices', async () => {
    const { stdout, stderr, code } = await run(`
import multiprocessing, shutil, sqlite3, subprocess
from multiprocessing import shared_memory
value = multiprocessing.Value('i', 40)
def add():
    with value.get_lock(): value.value += 1
workers = [multiprocessing.Process(target=add) for _ in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
shared = shared_memory.SharedMemory(create=True, size=1000)
shared.unlink()
sqlite3.connect('a.db').execute('create table a (b)')
shutil.copyfile('a.db', 'b.db')
subprocess.run('cat a.db >c.db; cp -a a.db d.db; head -c 9 /dev/zero | wc -c; sort a.db >/dev/null', shell=True, check=True)
print(value.value, open('a.db', 'rb').read() == open('b.db', 'rb').read() == open('d.db', 'rb').read())`)
    expect([code, stdout.text], stderr.text).toEqual([0, '9\n42 True\n'])
  })
})
