/**
 * Control groups (cgroup v2), in which the kernel limits the memory and the number of processes of
 * a sandbox together.
 *
 * They need a part of the hierarchy that belongs to this process: a group without other processes,
 * which this user may change, with the controllers `memory` and `pids`. `systemd-run --user --scope
 * -p Delegate=yes` makes one, and so does a container with its own writable hierarchy.
 */
import { randomBytes } from 'node:crypto'
import { accessSync, constants, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { SandboxLimits } from '@tandem-rl/base'
import { processesOf } from './watched.js'

/** The group to which this process moves, because one with processes cannot have limited ones. */
const OWN = 'tandem'

/** The start of the names of groups for sandboxes. */
const SANDBOX = 'tandem-sandbox-'

const CONTROLLERS = ['memory', 'pids'] as const

const words = (path: string): readonly string[] => readFileSync(path, 'utf8').split(/\s+/).filter(Boolean)

/** Places of the files in /proc that describe this process. */
interface ProcessFiles {
  /** Default: `/proc/self/cgroup`. */
  readonly membership?: string
  /** Default: `/proc/self/mountinfo`. */
  readonly mounts?: string
}

/** Returns the folder of this process's group in the hierarchy of version 2, if it is visible. */
const ownFolder = ({
  membership = '/proc/self/cgroup',
  mounts = '/proc/self/mountinfo',
}: ProcessFiles): string | null => {
  const path = /^0::(\/.*)$/m.exec(readFileSync(membership, 'utf8'))?.[1]
  const mount = readFileSync(mounts, 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .find((fields) => fields[fields.indexOf('-') + 1] === 'cgroup2')
  const [root, point] = mount?.slice(3, 5) ?? []
  if (path === undefined || root === undefined || point === undefined) return null
  const inside = relative(root, path)
  return inside.startsWith('..') ? null : join(point, inside)
}

const isLimiting = (folder: string): boolean => {
  const enabled = words(join(folder, 'cgroup.subtree_control'))
  return CONTROLLERS.every((name) => enabled.includes(name))
}

const moved = (pid: string, folder: string): void => {
  try {
    writeFileSync(join(folder, 'cgroup.procs'), pid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // it has ended
  }
}

/** Moves this process and its children into a group of their own: `folder` can then have others. */
const makeRoom = (folder: string): boolean => {
  const available = words(join(folder, 'cgroup.controllers'))
  const own = new Set(processesOf(process.pid).map(String))
  const members = words(join(folder, 'cgroup.procs'))
  if (!CONTROLLERS.every((name) => available.includes(name)) || !members.every((pid) => own.has(pid))) return false
  for (const name of ['cgroup.procs', 'cgroup.subtree_control']) accessSync(join(folder, name), constants.W_OK)
  mkdirSync(join(folder, OWN), { recursive: true })
  for (const pid of members) moved(pid, join(folder, OWN))
  writeFileSync(join(folder, 'cgroup.subtree_control'), CONTROLLERS.map((name) => `+${name}`).join(' '))
  return true
}

/** Removes the groups of sandboxes whose process was killed. The kernel keeps those in use. */
const sweep = (folder: string): void => {
  for (const name of readdirSync(folder)) if (name.startsWith(SANDBOX)) removed(join(folder, name))
}

const removed = (folder: string): boolean => {
  try {
    rmdirSync(folder)
    return true
  } catch {
    return false // it has processes, or another process has removed it
  }
}

/**
 * Returns the folder in which sandboxes can have groups, or `null` where the kernel cannot limit
 * them.
 *
 * Effects  moves this process and its children into a group below their own.
 */
export const delegatedGroup = (files: ProcessFiles = {}): string | null => {
  try {
    const own = ownFolder(files)
    if (own === null) return null
    const folder = basename(own) === OWN && isLimiting(dirname(own)) ? dirname(own) : own
    if (folder === own && !makeRoom(own)) return null
    accessSync(folder, constants.W_OK)
    sweep(folder)
    return folder
  } catch {
    return null // there is no such hierarchy, or this user may not change it
  }
}

/** A group of a sandbox. */
export interface ControlGroup {
  /** Moves a process into it. Its later children follow. */
  readonly add: (pid: number) => void
  /** Returns true if the kernel has ended it because of its memory. */
  readonly ranOut: () => boolean
  readonly remove: () => Promise<void>
}

/** Waits for processes that have ended to leave the group. */
const REMOVALS = 50
const PAUSE_MS = 20

/**
 * Makes a group in a delegated folder. The kernel ends all of its processes when they need more
 * memory than the limit: pages, files in memory, and most of the objects that it keeps for them.
 *
 * Errors   throws if the system refuses it.
 */
export const controlGroup = (delegated: string, { memoryBytes, processes }: SandboxLimits): ControlGroup => {
  const folder = join(delegated, `${SANDBOX}${randomBytes(8).toString('hex')}`)
  const set = (name: string, value: string): void => writeFileSync(join(folder, name), value)
  mkdirSync(folder)
  set('memory.max', String(memoryBytes))
  set('memory.oom.group', '1')
  set('pids.max', String(processes + 1)) // the shell is one of them
  if (readdirSync(folder).includes('memory.swap.max')) set('memory.swap.max', '0')
  return {
    add: (pid) => set('cgroup.procs', String(pid)),
    ranOut: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(folder, 'memory.events'), 'utf8'))?.[1] ?? 0) > 0,
    remove: async () => {
      for (let i = 0; i < REMOVALS && !removed(folder); i++) await new Promise((go) => setTimeout(go, PAUSE_MS))
    },
  }
}
