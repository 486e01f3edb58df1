/**
 * The resource usage of a sandbox's processes, measured from outside, where they cannot falsify it.
 */
import { readdirSync, readFileSync, statfsSync } from 'node:fs'
import type { SandboxLimits } from '../../core/sandbox.js'

/** Page size of the supported processors. Exact memory use is read before a program is killed. */
const PAGE_BYTES = 4096

/** Kernel memory of a file in addition to its contents. */
const BYTES_PER_FILE = 1024

/** Reads a file of /proc. Returns '' if its process has ended or is not accessible. */
const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const threadsOf = (pid: number): readonly string[] => {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

interface Tree {
  readonly pids: readonly number[]
  readonly tasks: number
}

/**
 * Returns a process and its descendants. Orphans in a sandbox become children of its first process.
 */
const treeOf = (pid: number): Tree => {
  const pids = [pid]
  let tasks = 0
  for (let i = 0; i < pids.length; i++) {
    const threads = threadsOf(pids[i]!)
    tasks += threads.length
    for (const thread of threads) {
      const children = read(`/proc/${pids[i]}/task/${thread}/children`).split(' ').filter(Boolean)
      pids.push(...children.map(Number))
    }
  }
  return { pids, tasks }
}

/**
 * Returns the bytes of private pages of a process. The kernel's cheap count is used, which counts
 * pages shared with children once per process.
 */
const ownBytes = (pid: number): number => {
  const [, resident = 0, shared = 0] = read(`/proc/${pid}/statm`).split(' ').map(Number)
  return (resident - shared) * PAGE_BYTES
}

/**
 * Returns the bytes of a process, with shared pages divided among the processes that share them.
 */
const exactBytes = (pid: number): number =>
  1024 * Number(/^Pss:\s+(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0)

const sum = (pids: readonly number[], f: (pid: number) => number): number => pids.reduce((all, pid) => all + f(pid), 0)

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
 * Returns an upper bound of the bytes in the sandbox's socket buffers. Its namespace also lists
 * sockets without an owner, which are in transit in a message. The system call filter permits no
 * other kinds of sockets and no larger buffers.
 */
const socketBytes = (pid: number): number => {
  const lines = read(`/proc/${pid}/net/unix`).split('\n').length - 2 // a title, and an empty line at the end
  return lines <= 0 ? 0 : lines * (Number(read(SOCKET_LIMIT)) || SOCKET_BYTES)
}

/** Returns the number of processes and threads of the sandbox with first process `pid`. */
export const tasksOf = (pid: number): number => treeOf(pid).tasks

/**
 * Returns the limit that all processes of a sandbox together exceed, if any. The kernel enforces
 * the limits of single processes.
 *
 * Cost     two small reads for each process and thread, of which the sandbox has a limited number.
 */
export const overLimit = (pid: number, folder: string, limits: SandboxLimits): 'memory' | 'disk' | undefined => {
  const { pids } = treeOf(pid)
  const files = filesOf(pid, folder, limits.diskBytes)
  if (files.count * BYTES_PER_FILE > limits.diskBytes) return 'disk'
  const fixed = files.bytes + files.count * BYTES_PER_FILE + socketBytes(pid)
  if (fixed + sum(pids, ownBytes) <= limits.memoryBytes) return undefined
  return fixed + sum(pids, exactBytes) > limits.memoryBytes ? 'memory' : undefined
}
