/**
 * A kernel filter (seccomp, classic BPF) for system calls that a program in the sandbox does not
 * need.
 *
 * Namespaces hide the host. The filter blocks what they leave open: kernel interfaces with a
 * history of vulnerabilities, sockets outside network namespaces (vsock reaches the host of a
 * virtual machine), injected terminal input (TIOCSTI), and kernel objects that hold memory which
 * `watched.ts` could not count:
 *
 * - objects of their own kind: System V segments, memfd, asynchronous I/O rings, file watches,
 *   Landlock rule sets, system call filters, futex tables, access control lists;
 * - pages that belong to no process: those that a pipe or a socket refers to (splice, vmsplice,
 *   sendfile), reserved huge pages, and shared anonymous mappings, whose pages stay after a part
 *   was unmapped;
 * - buffers that grow: of pipes and sockets. Only connected unix sockets are allowed, because
 *   datagrams would outlive their sender.
 *
 * Source   linux/filter.h, linux/seccomp.h, the system call tables of x86-64 and of arm64 in Linux
 *          6.18.
 */

/** System calls by name, with their numbers on x86-64 and arm64 (`null` if missing). */
type Calls = Readonly<Record<string, readonly [x64: number | null, arm64: number | null]>>

/** Refused with EPERM. From 424 on the numbers are equal on all architectures. */
const REFUSED: Calls = {
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  pidfd_getfd: [438, 438],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  unshare: [272, 97],
  setns: [308, 268],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  fanotify_init: [300, 262],
  inotify_init: [253, null],
  inotify_init1: [294, 26],
  io_setup: [206, 0],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  shmget: [29, 194],
  shmat: [30, 196],
  semget: [64, 190],
  msgget: [68, 186],
  mq_open: [240, 180],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  syslog: [103, 116],
  quotactl: [179, 60],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  vhangup: [153, 58],
  personality: [135, 92],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  iopl: [172, null],
  ioperm: [173, null],
  modify_ldt: [154, null],
  seccomp: [317, 277],
  landlock_create_ruleset: [444, 444],
  landlock_add_rule: [445, 445],
  landlock_restrict_self: [446, 446],
  vmsplice: [278, 75],
}

/** Refused with EINVAL, after which programs copy instead. */
const NO_SPLICE: Calls = { splice: [275, 76], tee: [276, 77], sendfile: [40, 71] }

/** Refused with EOPNOTSUPP, as file systems without extended attributes do. */
const NO_ATTRIBUTES: Calls = { setxattr: [188, 5], lsetxattr: [189, 6], fsetxattr: [190, 7] }

/** System calls from this number on set attributes, or are newer than this filter. */
const FIRST_UNKNOWN = 463

interface Architecture {
  readonly column: 0 | 1
  /** AUDIT_ARCH_*. */
  readonly audit: number
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
}

/** System calls that are refused for some arguments. */
const CHECKED = {
  clone: [56, 220],
  socket: [41, 198],
  socketpair: [53, 199],
  setsockopt: [54, 208],
  ioctl: [16, 29],
  fcntl: [72, 25],
  mmap: [9, 222],
  prctl: [157, 167],
} as const satisfies Calls

/**
 * The number of clone3 on all architectures. A filter cannot read its flags, which are behind a
 * pointer. The C library falls back to `clone`.
 */
const CLONE3 = 435

/** CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = 0x7e020080

const AF_UNIX = 1

/** SOCK_STREAM, SOCK_SEQPACKET. */
const CONNECTED = [1, 5] as const

/** The bits of a socket's type that are not flags. */
const TYPE_BITS = 0xf

/**
 * SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE; SO_ATTACH_FILTER, SO_ATTACH_BPF,
 * SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF.
 */
const SOCKET_OPTIONS = [7, 8, 32, 33, 26, 50, 51, 52] as const

/** F_SETPIPE_SZ, F_NOTIFY, F_OFD_SETLK, F_OFD_SETLKW. The last two make locks without an owner. */
const FILE_COMMANDS = [1031, 1026, 37, 38] as const

/** MAP_HUGETLB. */
const RESERVED_HUGE_PAGES = 0x40000

/** The type of a mapping and MAP_ANONYMOUS; MAP_SHARED and MAP_ANONYMOUS. */
const MAPPING_BITS = 0x2f
const SHARED_ANONYMOUS = 0x21

/**
 * Operations of prctl that are allowed: names, signals, timer slack and dumps of processes, and
 * reading their capabilities. Others allocate memory, such as PR_FUTEX_HASH, or undo `noHugePages`.
 */
const PROCESS_OPERATIONS = [1, 2, 3, 4, 15, 16, 21, 23, 27, 29, 30, 36, 37, 38, 39, 40, 47, 0x53564d41] as const

/** PR_SET_THP_DISABLE. */
const HUGE_PAGES = 41

/** TIOCSTI, TIOCLINUX. */
const TERMINAL_REQUESTS = [0x5412, 0x541c] as const

const EPERM = 1
const ENOMEM = 12
const EINVAL = 22
const ENOSYS = 38
const ESOCKTNOSUPPORT = 94
const EOPNOTSUPP = 95
const EAFNOSUPPORT = 97

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, value: number]

const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const NUMBER = load(0)
const ARCHITECTURE = load(4)
const argument = (index: number): Instruction => load(16 + 8 * index) // its lower half, on little-endian machines
const deliver = (value: number): Instruction => [0x06, 0, 0, value]
const ALLOW = deliver(0x7fff0000)
const KILL = deliver(0x80000000)
const refuse = (errno: number): Instruction => deliver(0x00050000 | errno)

/** Runs `then` if the loaded word equals `value`, and skips it otherwise. */
const whenEqual = (value: number, ...then: readonly Instruction[]): readonly Instruction[] => [
  [0x15, 0, then.length, value],
  ...then,
]

const whenAnyBit = (bits: number, ...then: readonly Instruction[]): readonly Instruction[] => [
  [0x45, 0, then.length, bits],
  ...then,
]

const whenAtLeast = (value: number, ...then: readonly Instruction[]): readonly Instruction[] => [
  [0x35, 0, then.length, value],
  ...then,
]

/** Refuses an argument that equals one of these values, and allows all others. */
const unless = (index: number, values: readonly number[]): readonly Instruction[] => [
  argument(index),
  ...values.flatMap((value) => whenEqual(value, refuse(EPERM))),
  ALLOW,
]

/** Allows connected unix sockets and refuses all other sockets. */
const SOCKETS: readonly Instruction[] = [
  argument(0),
  [0x15, 1, 0, AF_UNIX],
  refuse(EAFNOSUPPORT),
  argument(1),
  [0x54, 0, 0, TYPE_BITS],
  ...CONNECTED.flatMap((type) => whenEqual(type, ALLOW)),
  refuse(ESOCKTNOSUPPORT),
]

const mappings = (sharedMemory: SharedMemory): readonly Instruction[] => [
  argument(3),
  ...whenAnyBit(RESERVED_HUGE_PAGES, refuse(ENOMEM)),
  [0x54, 0, 0, MAPPING_BITS],
  ...(sharedMemory === 'files' ? whenEqual(SHARED_ANONYMOUS, refuse(ENOMEM)) : []),
  ALLOW,
]

const OPERATIONS: readonly Instruction[] = [
  argument(0),
  ...PROCESS_OPERATIONS.flatMap((operation) => whenEqual(operation, ALLOW)),
  ...whenEqual(HUGE_PAGES, argument(1), ...whenEqual(1, ALLOW)), // turns them off
  refuse(EINVAL),
]

/**
 * The memory that processes may share: only files in the sandbox, or anonymous mappings too, for
 * which the kernel must count their pages.
 */
export type SharedMemory = 'files' | 'all'

const programOf = ({ column, audit }: Architecture, sharedMemory: SharedMemory): readonly Instruction[] => {
  const refused = (calls: Calls, errno: number): readonly Instruction[] =>
    Object.values(calls).flatMap(({ [column]: call }) => (call === null ? [] : whenEqual(call, refuse(errno))))
  const checked = (name: keyof typeof CHECKED, then: readonly Instruction[]): readonly Instruction[] =>
    whenEqual(CHECKED[name][column], ...then)
  return [
    ARCHITECTURE,
    [0x15, 1, 0, audit], // another architecture's calls have other numbers
    KILL,
    NUMBER,
    ...whenAtLeast(FIRST_UNKNOWN, refuse(ENOSYS)), // and the x32 calls of x86-64
    ...refused(REFUSED, EPERM),
    ...refused(NO_SPLICE, EINVAL),
    ...refused(NO_ATTRIBUTES, EOPNOTSUPP),
    ...whenEqual(CLONE3, refuse(ENOSYS)),
    ...checked('clone', [argument(0), ...whenAnyBit(NAMESPACE_FLAGS, refuse(EPERM)), ALLOW]),
    ...checked('socket', SOCKETS),
    ...checked('socketpair', SOCKETS),
    ...checked('setsockopt', unless(2, SOCKET_OPTIONS)),
    ...checked('ioctl', unless(1, TERMINAL_REQUESTS)),
    ...checked('fcntl', unless(1, FILE_COMMANDS)),
    ...checked('mmap', mappings(sharedMemory)),
    ...checked('prctl', OPERATIONS),
    ALLOW,
  ]
}

/**
 * Returns the filter for a processor architecture (Node's name) in the kernel's format, or
 * `undefined` for an unsupported architecture.
 *
 * Cost     under 2 KiB; about a hundred comparisons for each system call of the program.
 *
 * @example
 * seccompFilter('s390x', 'files') // undefined
 */
export const seccompFilter = (architecture: string, sharedMemory: SharedMemory): Uint8Array | undefined => {
  const known = ARCHITECTURES[architecture]
  if (known === undefined) return undefined
  const program = programOf(known, sharedMemory)
  const bytes = new DataView(new ArrayBuffer(8 * program.length))
  for (const [i, [code, jumpTrue, jumpFalse, value]] of program.entries()) {
    bytes.setUint16(8 * i, code, true)
    bytes.setUint8(8 * i + 2, jumpTrue)
    bytes.setUint8(8 * i + 3, jumpFalse)
    bytes.setUint32(8 * i + 4, value, true)
  }
  return new Uint8Array(bytes.buffer)
}
