/** Records the machine and engine of a run, on which its exact numbers depend. */
import type { FileFailure, Files } from '@tandem-rl/base'
import { commandLine, liveCalendar, platform, processorName, runtimeVersion } from '@tandem-rl/base/host'
import { engineReport } from '@tandem-rl/tfjs-onnxruntime'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { version } from '../../live/version.js'
import type { RunPaths, RunStart } from './runFolder.js'

/** The machine and engine of a session. Runs are bit-identical only if all of these are equal. */
type MachineRecord = Readonly<Record<string, string>>

const machineNow = (): MachineRecord => {
  const { backend, version, threads } = engineReport()
  return {
    processor: processorName(),
    platform: platform(),
    backend: `${backend} ${version}`,
    threads: String(threads ?? 'unknown'),
  }
}

/** Describes this process, as the start of a run. */
export const startNow = (): RunStart => ({
  at: liveCalendar.today().toISOString(),
  version,
  command: commandLine(),
  processor: processorName(),
  node: runtimeVersion(),
})

const readRecord = (text: string): MachineRecord => {
  try {
    return JSON.parse(text) as MachineRecord // written below; any other file counts as different
  } catch {
    return {}
  }
}

/**
 * Writes machine.json for this session. Returns a warning if machine or engine differ from the
 * previous session, else `null`. After a change, results are not expected to be bit-identical.
 */
export const recordMachine = (files: Files, { machine }: RunPaths): TE.TaskEither<FileFailure, string | null> => {
  const now = machineNow()
  return pipe(
    files.exists(machine),
    TE.chain((exists) => (exists ? files.readText(machine) : TE.right(JSON.stringify(now)))),
    TE.map(readRecord),
    TE.chainFirst(() => files.write(machine, `${JSON.stringify(now, undefined, 2)}\n`)),
    TE.map((was) => {
      const different = Object.keys(now).filter((name) => was[name] !== now[name])
      return different.length === 0
        ? null
        : `the run resumes with ${different.map((name) => `${name} ${now[name]} instead of ${was[name] ?? 'unknown'}`).join(', ')}: ` +
            'results may differ by rounding from an uninterrupted run'
    }),
  )
}
