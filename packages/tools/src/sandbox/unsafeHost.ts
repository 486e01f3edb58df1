/** Running a program without isolation: with limits of the shell, in a temporary folder. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { SandboxFailure, SandboxLimits, SandboxProgram } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type Launch, programNamed, sandboxFailure } from './launch.js'

/**
 * Sets the limits that the system supports. This mode does not guarantee any. The number of a
 * user's processes is not limited here.
 */
const LIMITED =
  'ulimit -S -t "$1"; ulimit -H -t "$(($1 + 1))"; ulimit -v "$2" 2>/dev/null; ulimit -f "$3"; ulimit -n "$4" 2>/dev/null; ulimit -c 0; shift 4; exec "$@"'

/** Returns the limits in the shell's units: KiB of memory, and blocks of 512 bytes for files. */
const limitArguments = ({ cpuSeconds, memoryBytes, diskBytes, openFiles }: SandboxLimits): readonly string[] =>
  [cpuSeconds, Math.ceil(memoryBytes / 1024), Math.ceil(diskBytes / 512), openFiles].map(String)

/**
 * Makes the command that runs a program as this user, in a new temporary folder.
 *
 * Effects  makes the folder, which `cleanUp` removes.
 */
export const unsafeHostLaunch = async (
  program: SandboxProgram,
  limits: SandboxLimits,
): Promise<E.Either<SandboxFailure, Launch>> => {
  const shell = programNamed('sh')
  if (shell === undefined) return E.left(sandboxFailure('missing', 'sh not found'))
  const folder = await mkdtemp(join(tmpdir(), 'tandem-unsafe-'))
  for (const [name, contents] of Object.entries(program.files ?? {})) {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, contents)
  }
  return E.right({
    command: shell,
    args: ['-c', LIMITED, 'sh', ...limitArguments(limits), program.command, ...program.args],
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', HOME: folder, LANG: 'C.UTF-8', ...program.env },
    cwd: folder,
    inputs: [],
    reports: null,
    cleanUp: () => rm(folder, { recursive: true, force: true }),
  })
}
