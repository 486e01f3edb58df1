/**
 * The resource usage of a sandbox's processes, measured from outside, where they cannot falsify it.
 *
 * Memory has two measures. The first reads one small file for each thread and is too high. The
 * second is exact for pages, and reads more. It decides if the first one exceeds the limit. A
 * process that hides from the second one counts as in the first.
 */
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, statfsSync } from 'node:fs'
import type { SandboxLimits, SandboxMemory } from '@tandem-rl/base'

const KIB = 1024

/** The smallest page size of the supported processors. */
const PAGE_BYTES = 4096

/** Kernel memory of a file with the longest name, in addition to its contents. */
const BYTES_PER_FILE = 2 * KIB

/** Kernel memory of a thread or process, such as its stack in the kernel. */
const BYTES_PER_TASK = 32 * KIB

/** Kernel memory of a mapping with a name, and with the links to those of its ancestors. */
const BYTES_PER_MAPPING = KIB / 2

/** The capacity of a pipe, which the system call filter keeps from growing. */
const BYTES_PER_PIPE = 64 * KIB

/** Kernel memory of one descriptor in one epoll set. */
const BYTES_PER_WATCH = KIB / 4

/** Kernel memory of a lock on a part of a file. */
const BYTES_PER_LOCK = KIB / 4

/** The largest part of a file of /proc that is read. */
const MAX_READ = 256 * KIB

/** Reads something in /proc. Returns `ended` without its process, and `null` without permission. */
const from = <T>(ended: T, reading: () => T): T | null => {
  try {
    return reading()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EACCES' || code === 'EPERM' ? null : ended
  }
}

const read = (path: string): string | null => from('', () => readFileSync(path, 'utf8'))

const entriesOf = (folder: string): readonly string[] | null => from<readonly string[]>([], () => readdirSync(folder))

/** The beginning of a file. */
interface Start {
  readonly text: string
  readonly isWhole: boolean
}

/** Reads the beginning of a file whose size the watched processes choose. */
const readStart = (path: string): Start | null =>
  from<Start>({ text: '', isWhole: true }, () => {
    const buffer = Buffer.allocUnsafe(MAX_READ)
    const file = openSync(path, 'r')
    let size = 0
    try {
      for (let more = 1; more > 0 && size < MAX_READ; size += more) {
        more = readSync(file, buffer, size, MAX_READ - size, null)
      }
    } finally {
      closeSync(file)
    }
    return { text: buffer.toString('latin1', 0, size), isWhole: size < MAX_READ }
  })

const linesOf = (text: string): number => text.split('\n').length - 1

/** A process: its threads by their ids. */
interface Watched {
  readonly pid: number
  readonly threads: readonly string[]
}

/**
 * Returns a process and its descendants. Orphans in a sandbox become children of its first process.
 */
const treeOf = (pid: number): readonly Watched[] => {
  const tree: Watched[] = []
  const pids = [pid]
  for (let i = 0; i < pids.length; i++) {
    const threads = entriesOf(`/proc/${pids[i]}/task`) ?? []
    tree.push({ pid: pids[i]!, threads })
    for (const thread of threads) {
      const children = (read(`/proc/${pids[i]}/task/${thread}/children`) ?? '').split(' ').filter(Boolean)
      pids.push(...children.map(Number))
    }
  }
  return tree
}

const sum = <T>(values: readonly T[], f: (value: T) => number): number => values.reduce((all, each) => all + f(each), 0)

const tasksIn = (tree: readonly Watched[]): number => sum(tree, ({ threads }) => threads.length)

/** Returns a number of a file of /proc with a line for each, in its unit. */
const field = (text: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)

/** Returns the bytes of open pipes and epoll sets, if `count` descriptors may be any of both. */
const descriptorBytes = (count: number): number => BYTES_PER_PIPE * count + (BYTES_PER_WATCH * count ** 2) / 4

/** The numbers of a process that are cheap to read. */
interface Size extends Watched {
  /** Anonymous pages in memory, those that are swapped out, and page tables. */
  readonly pages: { readonly resident: number; readonly swapped: number; readonly tables: number }
  /** Number of mappings, if each had one page. */
  readonly mostMappings: number
  /** Sizes of the tables of open files, by thread. */
  readonly tables: readonly number[]
}

const sizeOf = (watched: Watched): Size => {
  const { pid, threads } = watched
  const texts = threads.map((thread) => read(`/proc/${pid}/task/${thread}/status`) ?? '')
  const first = texts[0] ?? ''
  const bytes = (name: string): number => KIB * field(first, name)
  return {
    ...watched,
    pages: { resident: bytes('RssAnon'), swapped: bytes('VmSwap'), tables: bytes('VmPTE') },
    mostMappings: Math.ceil(bytes('VmSize') / PAGE_BYTES),
    tables: texts.map((text) => field(text, 'FDSize')),
  }
}

const roughBytes = ({ pages: { resident, swapped, tables: pageTables }, mostMappings, tables }: Size): number =>
  resident + swapped + pageTables + BYTES_PER_MAPPING * mostMappings + sum(tables, descriptorBytes)

/** Returns true if a process has memory. While it ends, it has none, and its files are hidden. */
const hasMemory = (pid: number): boolean => field(read(`/proc/${pid}/status`) ?? '', 'VmSize') > 0

/** Divides pages that processes of a sandbox share after a fork among them. Counts mappings. */
const exactPages = ({ pid, pages, mostMappings }: Size): number => {
  const rollup = read(`/proc/${pid}/smaps_rollup`)
  if (rollup === null && !hasMemory(pid)) return 0
  const start = readStart(`/proc/${pid}/maps`)
  const mappings = start?.isWhole === true ? linesOf(start.text) : mostMappings
  const resident = rollup === null ? pages.resident : KIB * field(rollup, 'Pss_Anon')
  const swapped = rollup === null ? pages.swapped : KIB * field(rollup, 'SwapPss')
  return resident + swapped + pages.tables + BYTES_PER_MAPPING * mappings
}

const linkOf = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch {
    return '' // closed meanwhile
  }
}

/** Counts each pipe once, and the epoll sets of each different table of open files. */
const exactDescriptors = (sizes: readonly Size[]): number => {
  const pipes = new Set<string>()
  const tables = new Map<string, number>()
  let hidden = 0
  for (const { pid, threads, tables: tableSizes } of sizes) {
    for (const [i, thread] of threads.entries()) {
      const folder = `/proc/${pid}/task/${thread}/fd`
      const names = entriesOf(folder)
      if (names === null) {
        if (hasMemory(pid)) hidden += descriptorBytes(tableSizes[i] ?? 0)
        continue
      }
      const links = names.map((name) => linkOf(`${folder}/${name}`))
      for (const link of links) if (link.startsWith('pipe:')) pipes.add(link)
      const sets = links.filter((link) => link === 'anon_inode:[eventpoll]').length
      tables.set(links.join(), sets * links.length)
    }
  }
  return hidden + BYTES_PER_PIPE * pipes.size + BYTES_PER_WATCH * sum([...tables.values()], (watches) => watches)
}

const NO_FILES = { bytes: 0, count: 0 } as const

/**
 * Returns the bytes and number of files in the sandbox. Until the sandbox is set up, its first
 * process sees the host's folder of that name: a folder of another size is not the sandbox's.
 */
const filesOf = (
  pid: number,
  folder: string,
  diskBytes: number,
): { readonly bytes: number; readonly count: number } => {
  try {
    const { blocks, bfree, bsize, files, ffree } = statfsSync(`/proc/${pid}/root${folder}`)
    return blocks === Math.ceil(diskBytes / bsize)
      ? { bytes: (blocks - bfree) * bsize, count: files - ffree }
      : NO_FILES
  } catch {
    return NO_FILES // it has ended
  }
}

/** The kernel's limit of unread bytes in a new socket, and the value used if it is not readable. */
const SOCKET_LIMIT = '/proc/sys/net/core/wmem_default'
const SOCKET_BYTES = 212_992

/**
 * Returns an upper bound of the bytes in the sandbox's socket buffers, and in pipes that are in
 * transit in a message. Its namespace also lists sockets without an owner, which are in transit
 * too. The system call filter permits no other kinds of sockets and no larger buffers.
 */
const socketBytes = (pid: number, { openFiles }: SandboxLimits): number => {
  const { text, isWhole } = readStart(`/proc/${pid}/net/unix`) ?? { text: '', isWhole: true }
  const lines = linesOf(text) - 1 // a title
  if (!isWhole) return Number.POSITIVE_INFINITY
  if (lines <= 0) return 0
  return lines * (Number(read(SOCKET_LIMIT)) || SOCKET_BYTES) + BYTES_PER_PIPE * openFiles
}

/** Number of locks from which a sandbox with a part of a long list has too many. */
const MANY_LOCKS = 512

/**
 * Returns the bytes of locks that the processes hold. The kernel neither limits them nor counts
 * them for a control group. If its list is too long to be read, a sandbox with many of the locks in
 * its beginning counts as one without bound.
 */
const lockBytes = (tree: readonly Watched[]): number => {
  const { text, isWhole } = readStart('/proc/locks') ?? { text: '', isWhole: true }
  const pids = new Set(tree.map(({ pid }) => String(pid)))
  // `1: POSIX  ADVISORY  WRITE 1234 00:2f:5 0 EOF`, and with `->` before POSIX for one that waits
  const owners = text.split('\n').map((line) => /(?:READ|WRITE|UNLCK) +(\d+) /.exec(line)?.[1] ?? '')
  const owned = owners.filter((owner) => pids.has(owner)).length
  return isWhole || owned < MANY_LOCKS ? BYTES_PER_LOCK * owned : Number.POSITIVE_INFINITY
}

/** Returns a process and its descendants. */
export const processesOf = (pid: number): readonly number[] => treeOf(pid).map((each) => each.pid)

/** Returns the number of processes and threads of the sandbox with first process `pid`. */
export const tasksOf = (pid: number): number => tasksIn(treeOf(pid))

/**
 * Returns the limit that all processes of a sandbox together exceed, if any. The kernel enforces
 * the limits of single processes. A process whose child has not yet replaced its image may count
 * twice, so a sandbox above its memory should be measured again.
 *
 * Cost     two small reads for each process and thread, of which the sandbox has a limited number.
 *          Near the limit, up to `MAX_READ` bytes for each process.
 */
export const overLimit = (
  pid: number,
  { folder, memory }: { readonly folder: string; readonly memory: SandboxMemory },
  limits: SandboxLimits,
): 'memory' | 'disk' | undefined => {
  const { diskBytes, memoryBytes } = limits
  const tree = treeOf(pid)
  const files = filesOf(pid, folder, diskBytes)
  if (files.count * BYTES_PER_FILE > diskBytes) return 'disk'
  const locks = lockBytes(tree)
  if (memory === 'cgroup') return locks > memoryBytes ? 'memory' : undefined
  const kernel = files.count * BYTES_PER_FILE + BYTES_PER_TASK * tasksIn(tree) + socketBytes(pid, limits) + locks
  const fixed = files.bytes + kernel
  const sizes = tree.map(sizeOf)
  if (fixed + sum(sizes, roughBytes) <= memoryBytes) return undefined
  return fixed + sum(sizes, exactPages) + exactDescriptors(sizes) > memoryBytes ? 'memory' : undefined
}
