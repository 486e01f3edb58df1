/** The runs of some folders, with the answers about each. */
import { z } from 'zod'
import type { Files } from '../core/capabilities.js'
import { orThrow } from '../core/failure.js'
import { bestEvaluation } from '../data/runLayout.js'
import { ALARM_KINDS, type AlarmLimits, DEFAULT_ALARM_LIMITS, watchSteps } from '../run/alarms.js'
import { runPaths } from '../run/runFolder.js'
import { metricColumns } from './metricColumns.js'
import { readAnnotations, readNote } from './notes.js'
import type { AlarmRow, Annotation, Feature, RunAnswer, RunRow, RunState } from './protocol.js'
import { fileRollouts, type RolloutLog } from './rolloutLog.js'
import { type RunLog, runLog } from './runLog.js'

/** A run that is open in the viewer. */
export interface ViewedRun extends RolloutLog {
  readonly id: string
  readonly folder: string
  readonly log: () => Promise<RunLog>
  readonly annotations: () => Promise<ReadonlyMap<string, Annotation>>
}

/** Levels of folders below a given one in which runs are found. */
const DEPTH = 3

const runFoldersIn = async (files: Files, folder: string, depth: number): Promise<readonly string[]> => {
  if (orThrow(await files.exists(`${folder}/config.json`)())) return [folder]
  if (depth === 0) return []
  const found: string[] = []
  const names = await files.list(folder)()
  if (names._tag === 'Left') return [] // a file
  for (const name of names.right) {
    if (!name.startsWith('.') && name !== 'node_modules') {
      found.push(...(await runFoldersIn(files, `${folder}/${name}`, depth - 1)))
    }
  }
  return found
}

const idOf = (folder: string, taken: ReadonlySet<string>): string => {
  const name = (folder.split('/').at(-1) ?? 'run').replace(/[^\w.-]/g, '-')
  if (!taken.has(name)) return name
  return Array.from({ length: taken.size + 1 }, (_, i) => `${name}-${i + 2}`).find((id) => !taken.has(id)) ?? name
}

/** The file of the index of a run's rollouts. The viewer makes it again at any time. */
const indexPath = (folder: string): string => `${folder}/.view/rollouts.json`

const viewedRun = (files: Files, id: string, folder: string): ViewedRun => ({
  ...{ id, folder, log: runLog(files, folder) },
  ...fileRollouts(files, { path: runPaths(folder).trajectories, index: indexPath(folder) }),
  annotations: () => readAnnotations(files, folder),
})

/** Finds the runs in folders, again on each call. A run keeps its identifier. */
export const viewedRuns = (files: Files, folders: readonly string[]): (() => Promise<readonly ViewedRun[]>) => {
  const known = new Map<string, ViewedRun>()
  return async () => {
    const found = (await Promise.all(folders.map((folder) => runFoldersIn(files, folder, DEPTH)))).flat()
    for (const folder of found) {
      if (known.has(folder)) continue
      const id = idOf(folder, new Set([...known.values()].map((run) => run.id)))
      known.set(folder, viewedRun(files, id, folder))
    }
    return [...new Set(found)].map((folder) => known.get(folder)!) // set above
  }
}

/** A log that changed within this time belongs to an active run, in milliseconds. */
const ACTIVE = 60_000

const stateOf = ({ status, updatedAt, lock }: RunLog): RunState => {
  if (lock === 'held') return 'running'
  if (status === 'finished') return 'finished'
  if (lock === 'stale') return 'stopped'
  return updatedAt !== null && Date.now() - Date.parse(updatedAt) < ACTIVE && status === null ? 'running' : 'stopped'
}

const textOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value)

const lastOf = ({ steps, evaluations }: RunLog): RunRow['last'] => {
  const [step, evaluation] = [steps.at(-1), evaluations.at(-1)]
  return {
    ...(step !== undefined && { reward: step.reward, loss: step.update.loss }),
    ...(step?.update.entropy !== undefined && { entropy: step.update.entropy }),
    ...(evaluation !== undefined && { ...evaluation.scores, accuracy: evaluation.scores[evaluation.score] ?? 0 }),
  }
}

/** Returns the row of a run in the list of runs. */
export const runRow = async (files: Files, { id, folder, log }: ViewedRun): Promise<RunRow> => {
  const [records, note] = [await log(), await readNote(files, folder)]
  const { settings, recipe, start } = records.config
  return {
    ...{ id, folder },
    name: note.name ?? folder.split('/').at(-1) ?? id,
    recipe: recipe?.name ?? null,
    state: stateOf(records),
    step: records.steps.at(-1)?.step ?? 0,
    steps: typeof settings.steps === 'number' ? settings.steps : null,
    ...{ startedAt: records.startedAt, updatedAt: records.updatedAt },
    model: textOrNull(settings.model),
    data: textOrNull(settings.dataset) ?? (recipe === null ? null : 'generated'),
    ...{ command: start?.command ?? null, version: start?.version ?? null, machine: records.machine },
    ...{ tags: note.tags ?? [], note: note.note ?? '' },
    last: lastOf(records),
  }
}

const limitsSchema = z.object({
  keep: z.object({ alarmLimits: z.partialRecord(z.enum(ALARM_KINDS), z.number().nullable()) }),
})

/** Returns the limits of `keep.alarmLimits`, and the default limits of the other alarms. */
const limitsOf = ({ config }: RunLog): AlarmLimits => {
  const parsed = limitsSchema.safeParse(config.settings)
  return { ...DEFAULT_ALARM_LIMITS, ...(parsed.success ? parsed.data.keep.alarmLimits : {}) }
}

const alarmsOf = async (files: Files, log: RunLog): Promise<readonly AlarmRow[]> => {
  const saved = orThrow(await files.list(log.paths.alarms)())
  const batchOf = (step: number): string | null => {
    const name = `step-${String(step).padStart(6, '0')}`
    return saved.includes(name) ? `alarms/${name}` : null
  }
  return watchSteps(log.steps, limitsOf(log)).alarms.map((alarm) => ({
    ...alarm,
    batch: batchOf(alarm.since) ?? batchOf(alarm.step),
  }))
}

/** Returns everything about a run but its metrics and rollouts. */
export const runAnswer = async (files: Files, run: ViewedRun): Promise<RunAnswer> => {
  const [row, log, rollouts, annotations] = [
    await runRow(files, run),
    await run.log(),
    await run.rollouts(),
    await run.annotations(),
  ]
  const best = bestEvaluation(log.evaluations)
  const partNames = [...new Set(rollouts.flatMap((each) => Object.keys(each.row.parts)))]
  const features: readonly Feature[] = partNames.length > 0 ? ['write', 'rescore'] : ['write']
  return {
    ...row,
    settings: log.config.settings,
    parts: log.config.run,
    metricNames: Object.keys(metricColumns(log.steps).columns),
    alarms: await alarmsOf(files, log),
    evaluations: log.evaluations,
    best: best === undefined ? null : { step: best.step, name: best.name, value: best.scores[best.score] ?? 0 },
    ...{ checkpoints: log.checkpoints, batches: log.batches, rollouts: rollouts.length, partNames, features },
    labels: [...new Set([...annotations.values()].flatMap(({ labels }) => labels))].sort(),
  }
}
