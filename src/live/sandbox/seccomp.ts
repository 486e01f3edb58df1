/**
 * A kernel filter (seccomp, classic BPF) for system calls that a program in the sandbox does not
 * need.
 *
 * Namespaces hide the host. The filter blocks what they leave open: kernel interfaces with a
 * history of vulnerabilities, memory outside all limits (System V segments, memfd, asynchronous I/O
 * rings, file watches), sockets outside network namespaces (vsock reaches the host of a virtual
 * machine), and injected terminal input (TIOCSTI).
 *
 * Only connected unix sockets with their initial buffer size are allowed. Their memory is bounded,
 * so counting them suffices. Datagrams would outlive their sender, and TCP buffers grow to
 * megabytes.
 *
 * Source   linux/filter.h, linux/seccomp.h, the system call tables of x86-64 and of arm64 in Linux
 *          6.1.
 */

/**
 * System calls by name, with their numbers on x86-64 and arm64 (`null` if missing). From 424 on the
 * numbers are equal.
 */
const REFUSED: Readonly<Record<string, readonly [x64: number | null, arm64: number | null]>> = {
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
}

interface Architecture {
  readonly column: 0 | 1
  /** AUDIT_ARCH_*. */
  readonly audit: number
  readonly clone: number
  readonly socket: number
  readonly socketpair: number
  readonly setsockopt: number
  readonly ioctl: number
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: { column: 0, audit: 0xc000003e, clone: 56, socket: 41, socketpair: 53, setsockopt: 54, ioctl: 16 },
  arm64: { column: 1, audit: 0xc00000b7, clone: 220, socket: 198, socketpair: 199, setsockopt: 208, ioctl: 29 },
}

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

/** SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE. */
const BUFFER_SIZES = [7, 8, 32, 33] as const

/** TIOCSTI, TIOCLINUX. */
const TERMINAL_REQUESTS = [0x5412, 0x541c] as const

const EPERM = 1
const ENOSYS = 38
const ESOCKTNOSUPPORT = 94
const EAFNOSUPPORT = 97

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, value: number]

const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const NUMBER = load(0)
const ARCHITECTURE = load(4)
const argument = (index: number): Instruction => load(16 + 8 * index) // its lower half, on little-endian machines
const give = (value: number): Instruction => [0x06, 0, 0, value]
const ALLOW = give(0x7fff0000)
const KILL = give(0x80000000)
const refuse = (errno: number): Instruction => give(0x00050000 | errno)

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

/** Allows connected unix sockets and refuses all other sockets. */
const socketRules: readonly Instruction[] = [
  argument(0),
  [0x15, 1, 0, AF_UNIX],
  refuse(EAFNOSUPPORT),
  argument(1),
  [0x54, 0, 0, TYPE_BITS],
  ...CONNECTED.flatMap((type) => whenEqual(type, ALLOW)),
  refuse(ESOCKTNOSUPPORT),
]

const programOf = ({ column, audit, clone, ...numbered }: Architecture): readonly Instruction[] => [
  ARCHITECTURE,
  [0x15, 1, 0, audit], // another architecture's calls have other numbers
  KILL,
  NUMBER,
  ...whenAtLeast(0x40000000, refuse(ENOSYS)), // the x32 calls of x86-64
  ...Object.values(REFUSED).flatMap((numbers) =>
    numbers[column] === null ? [] : whenEqual(numbers[column], refuse(EPERM)),
  ),
  ...whenEqual(CLONE3, refuse(ENOSYS)),
  ...whenEqual(clone, argument(0), ...whenAnyBit(NAMESPACE_FLAGS, refuse(EPERM)), ALLOW),
  ...[numbered.socket, numbered.socketpair].flatMap((call) => whenEqual(call, ...socketRules)),
  ...whenEqual(numbered.setsockopt, argument(2), ...BUFFER_SIZES.flatMap((name) => whenEqual(name, refuse(EPERM)))),
  NUMBER,
  ...whenEqual(
    numbered.ioctl,
    argument(1),
    ...TERMINAL_REQUESTS.flatMap((request) => whenEqual(request, refuse(EPERM))),
  ),
  ALLOW,
]

/**
 * Returns the filter for a processor architecture (Node's name) in the kernel's format, or
 * `undefined` for an unsupported architecture.
 *
 * Cost     under 2 KiB; a few dozen comparisons for each system call of the program.
 *
 * @example
 * seccompFilter('s390x') // undefined
 */
export const seccompFilter = (architecture: string): Uint8Array | undefined => {
  const known = ARCHITECTURES[architecture]
  if (known === undefined) return undefined
  const program = programOf(known)
  const bytes = new DataView(new ArrayBuffer(8 * program.length))
  for (const [i, [code, jumpTrue, jumpFalse, value]] of program.entries()) {
    bytes.setUint16(8 * i, code, true)
    bytes.setUint8(8 * i + 2, jumpTrue)
    bytes.setUint8(8 * i + 3, jumpFalse)
    bytes.setUint32(8 * i + 4, value, true)
  }
  return new Uint8Array(bytes.buffer)
}
