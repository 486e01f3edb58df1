/** The bubblewrap command line that isolates a program. */
import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { arch, release } from 'node:os'
import { join } from 'node:path'
import { errorMessage, type SandboxFailure, type SandboxLimits, type SandboxProgram } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type ControlGroup, controlGroup } from './controlGroup.js'
import { noHugePages } from './hugePages.js'
import { GO, type Launch, programNamed, sandboxFailure } from './launch.js'
import { seccompFilter } from './seccomp.js'

/** The only writable folder of the program. */
const HOME = '/tmp'

/** The working folder of the program, with its files. */
export const SANDBOX_FOLDER = `${HOME}/work`

/**
 * User id of the program inside the sandbox, without rights. If this process is root, also outside.
 */
const NOBODY = 65534

/** The first kernel version that counts the processes of a sandbox separately. */
const FIRST_KERNEL = [5, 14] as const

const SYSTEM_FOLDERS = ['/bin', '/sbin', '/lib', '/lib32', '/lib64'] as const
const SYSTEM_FILES = ['/etc/ld.so.cache', '/etc/alternatives'] as const
const STREAMS = ['stdin', 'stdout', 'stderr'] as const

/**
 * Devices by name, with the host's device behind each. A mapping of `zero` would be memory without
 * an owner. `full` reads the same, and cannot be mapped.
 */
const DEVICES = { null: 'null', zero: 'full', full: 'full', random: 'random', urandom: 'urandom' } as const

const PATH = '/usr/local/bin:/usr/bin:/bin'

/** The program that turns huge pages off. */
const START = '/start'

const INSTALL =
  'the sandbox needs bubblewrap and util-linux (apt-get install bubblewrap util-linux; dnf install bubblewrap util-linux)'
const UNSAFE = "; isolation: 'unsafe-host' runs programs without isolation, as this user"

/** Returns the arguments for a system folder, which is a link into /usr or a folder. */
const systemFolder = (path: string): readonly string[] => {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return []
  return found.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
}

const WALLS: readonly string[] = [
  ...['--unshare-all', '--unshare-user', '--uid', String(NOBODY), '--gid', String(NOBODY)],
  ...['--hostname', 'sandbox', '--die-with-parent', '--new-session', '--as-pid-1', '--cap-drop', 'ALL'],
]

/**
 * Files of /proc with facts about the host. `kcore` and `sysrq-trigger` need root, who is not
 * inside.
 */
const MACHINE_FACTS = [
  ...['cmdline', 'diskstats', 'interrupts', 'keys', 'key-users', 'latency_stats', 'locks', 'modules', 'partitions'],
  ...['sched_debug', 'swaps', 'timer_list', 'timer_stats', 'vmallocinfo', 'zoneinfo'],
]

/** Mounts a device that cannot be opened over each of these files, so that reading fails. */
const hiddenFacts = (): readonly string[] =>
  MACHINE_FACTS.map((name) => `/proc/${name}`)
    .filter((path) => existsSync(path))
    .flatMap((path) => ['--ro-bind', '/dev/null', path])

const fileSystem = (readOnly: readonly string[], diskBytes: number): readonly string[] => [
  ...['--ro-bind', '/usr', '/usr'],
  ...SYSTEM_FOLDERS.flatMap(systemFolder),
  ...SYSTEM_FILES.flatMap((path) => ['--ro-bind-try', path, path]),
  ...['--proc', '/proc', ...hiddenFacts(), '--remount-ro', '/proc', '--dir', '/dev'],
  ...Object.entries(DEVICES).flatMap(([name, device]) => ['--dev-bind', `/dev/${device}`, `/dev/${name}`]),
  ...['--symlink', '/proc/self/fd', '/dev/fd'],
  ...STREAMS.flatMap((name, i) => ['--symlink', `/proc/self/fd/${i}`, `/dev/${name}`]),
  ...['--size', String(diskBytes), '--tmpfs', HOME],
  ...['--dir', `${HOME}/.shm`, '--symlink', `${HOME}/.shm`, '/dev/shm', '--dir', SANDBOX_FOLDER],
  ...readOnly.flatMap((path) => ['--ro-bind', path, path]), // last, because they may be in a hidden folder
]

/** Returns this process's hard limits, which its children cannot exceed, by name in /proc. */
const ownLimits = (): ReadonlyMap<string, number> => {
  const lines = readFileSync('/proc/self/limits', 'utf8').split('\n').slice(1)
  return new Map(
    lines.flatMap((line) => {
      const [, name, hard] = /^(\S+(?: \S+)*) {2,}\S+ +(\S+)/.exec(line) ?? []
      return name === undefined || hard === 'unlimited' ? [] : [[name, Number(hard)] as const]
    }),
  )
}

/** Returns the limits, which are set before the first process of the sandbox starts. */
const limitsOf = (limits: SandboxLimits): readonly string[] => {
  const own = ownLimits()
  const most = (name: string, wanted: number): number => Math.min(wanted, own.get(name) ?? wanted)
  const cpu = most('Max cpu time', limits.cpuSeconds + 1)
  return [
    `--as=${most('Max address space', limits.memoryBytes)}`,
    `--cpu=${Math.min(limits.cpuSeconds, cpu)}:${cpu}`,
    `--fsize=${most('Max file size', limits.diskBytes)}`,
    `--nofile=${most('Max open files', limits.openFiles)}`,
    `--nproc=${most('Max processes', limits.processes + 1)}`, // the shell is one of them
    `--sigpending=${most('Max pending signals', 1024)}`,
    ...['--core=0', '--memlock=0', '--msgqueue=0'],
  ]
}

/**
 * The first process of the sandbox. It adopts orphans, and when it ends with the program, the
 * kernel kills all others. It waits for a start word from its parent: if the parent is killed
 * before bubblewrap is bound to it, no program is left behind.
 */
const FIRST = `read -r word <&4 && [ "$word" = ${GO} ] || exit 1; exec 4<&-; "$@"; exit $?`

/** Makes the OOM killer prefer the sandbox. Set outside, because /proc is read-only inside. */
const OUTER = 'echo 1000 >/proc/self/oom_score_adj; exec "$@"'

const isOldKernel = (version: string): boolean => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < FIRST_KERNEL[0] || (major === FIRST_KERNEL[0] && minor < FIRST_KERNEL[1])
}

/** Returns the requirement that this machine does not meet, if any. */
const lack = (): SandboxFailure | undefined => {
  if (process.platform !== 'linux') {
    return sandboxFailure('refused', `the sandbox needs Linux; this is ${process.platform}${UNSAFE}`)
  }
  if (isOldKernel(release())) {
    return sandboxFailure('refused', `the sandbox needs Linux ${FIRST_KERNEL.join('.')}; this is ${release()}${UNSAFE}`)
  }
  const lacking = ['bwrap', 'prlimit', 'sh'].filter((name) => programNamed(name) === undefined)
  return lacking.length === 0
    ? undefined
    : sandboxFailure('missing', `${lacking.join(' and ')} not found: ${INSTALL}${UNSAFE}`)
}

const refusal = (text: string): SandboxFailure =>
  sandboxFailure(
    'refused',
    `bubblewrap could not make a sandbox (${text.trim()}); the system must allow user namespaces${UNSAFE}`,
  )

/**
 * Makes the group of a sandbox, or returns why it failed. Throws nothing. Without a folder for
 * groups, returns `null`.
 */
const groupIn = (groups: string | null, limits: SandboxLimits): E.Either<SandboxFailure, ControlGroup | null> =>
  E.tryCatch(
    () => (groups === null ? null : controlGroup(groups, limits)),
    (error) => sandboxFailure('refused', `no control group could be made in ${groups}: ${errorMessage(error)}`),
  )

/**
 * Makes the command that runs a program in bubblewrap with these limits. `groups`: the folder for
 * control groups, if there is one.
 *
 * Its files and the system call filter are read from descriptors, so they are never written to the
 * host's disk.
 */
export const bubblewrapLaunch = (
  program: SandboxProgram,
  limits: SandboxLimits,
  groups: string | null,
): E.Either<SandboxFailure, Launch> => {
  const lacking = lack()
  if (lacking !== undefined) return E.left(lacking)
  const filter = seccompFilter(arch(), groups === null ? 'files' : 'all')
  const start = noHugePages(arch())
  if (filter === undefined || start === undefined) {
    return E.left(sandboxFailure('refused', `the sandbox does not support the processor ${arch()}${UNSAFE}`))
  }
  if (!program.command.startsWith('/') && programNamed(program.command, PATH) === undefined) {
    return E.left(sandboxFailure('missing', `there is no program ${program.command} in ${PATH}`))
  }
  const files = Object.entries(program.files ?? {})
  const env = { PATH, HOME, LANG: 'C.UTF-8', ...program.env }
  const args = [
    ...WALLS,
    ...['--clearenv', ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value])],
    ...fileSystem(program.readOnly ?? [], limits.diskBytes),
    ...['--perms', '0555', '--file', '6', START], // after the start word and the filter
    ...files.flatMap(([name], i) => ['--file', String(7 + i), join(SANDBOX_FOLDER, name)]),
    ...['--remount-ro', '/', '--chdir', SANDBOX_FOLDER, '--json-status-fd', '3', '--seccomp', '5', '--'],
    ...['prlimit', ...limitsOf(limits), '--', START, '/bin/sh', '-c', FIRST, 'sh', program.command, ...program.args],
  ]
  const isRoot = process.getuid?.() === 0
  const group = groupIn(groups, limits)
  if (E.isLeft(group)) return group
  return E.right({
    command: programNamed('sh')!, // `lack` has checked both
    args: ['-c', OUTER, 'sh', programNamed('bwrap')!, ...args],
    env: { PATH },
    ...(isRoot && { user: NOBODY }), // the kernel does not limit the number of root's processes
    inputs: [filter, start, ...files.map(([, contents]) => contents)],
    cwd: '/',
    reports: { folder: HOME, refusal, group: group.right },
    cleanUp: async () => group.right?.remove(),
  })
}
