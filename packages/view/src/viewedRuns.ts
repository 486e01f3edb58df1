/** The runs of some folders, with the answers about each. */
import { errorMessage, type Files } from '@tandem-rl/base'
import { type RunReader, readRun } from 'tandem-rl/run'
import { type FoundLog, logInFile, logsInFolder } from './foreign/readers.js'
import { foreignRun } from './foreignRun.js'
import { columnsOf } from './metricColumns.js'
import { readAnnotations, readNote } from './notes.js'
import type { Feature, RunAnswer, RunRow } from './protocol.js'
import { fileRollouts } from './rolloutLog.js'
import type { RunLog, ViewedRun } from './viewedRun.js'

/** Levels of folders below a given one in which runs are found. */
const DEPTH = 3

/** A run folder, or a log of another program. */
interface Found {
  readonly place: string
  readonly opened: RunReader | FoundLog
}

const foundIn = async (files: Files, place: string, depth: number): Promise<readonly Found[]> => {
  const run = await readRun(place)
  if (run !== null) return [{ place, opened: run }]
  const names = await files.list(place)()
  if (names._tag === 'Left') {
    const log = await logInFile(files, place)
    return log === null ? [] : [{ place, opened: log }]
  }
  const logs = await logsInFolder(files, place, names.right)
  const found: Found[] = logs.map((log) => ({ place: log.place, opened: log }))
  if (depth === 0) return found
  for (const name of names.right) {
    if (name.startsWith('.') || name === 'node_modules' || name.includes('.jsonl')) continue
    const inner = await foundIn(files, `${place}/${name}`, depth - 1)
    found.push(...inner.filter((each) => !logs.some(({ paths }) => paths.includes(each.place))))
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

const viewedRun = (id: string, { folder, files, trajectories, records, alarms }: RunReader): ViewedRun => ({
  id,
  folder,
  files,
  access: 'write',
  log: records,
  alarms,
  note: () => readNote(files, folder),
  ...fileRollouts(files, { path: trajectories, index: indexPath(folder) }),
  annotations: () => readAnnotations(files, folder),
})

/** Finds the runs in folders, again on each call. A run keeps its identifier. */
export const viewedRuns = (files: Files, folders: readonly string[]): (() => Promise<readonly ViewedRun[]>) => {
  const known = new Map<string, ViewedRun>()
  const logs = new Map<string, FoundLog>()
  return async () => {
    const found = (await Promise.all(folders.map((folder) => foundIn(files, folder, DEPTH)))).flat()
    for (const { place, opened } of found) {
      const isRun = 'records' in opened
      if (!isRun) logs.set(place, opened) // with the files that the folder has now
      if (known.has(place)) continue
      const id = idOf(place, new Set([...known.values()].map((run) => run.id)))
      known.set(place, isRun ? viewedRun(id, opened) : foreignRun(files, { id, log: () => logs.get(place)! }))
    }
    return [...new Set(found.map(({ place }) => place))].map((place) => known.get(place)!) // set above
  }
}

const textOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value)

const lastOf = ({ steps, evaluations, columns }: RunLog): RunRow['last'] => {
  const [step, evaluation] = [steps.at(-1), evaluations.at(-1)]
  const reward = columns?.columns.reward?.at(-1)
  return {
    ...(typeof reward === 'number' && { reward }),
    ...(step !== undefined && { reward: step.reward, loss: step.update.loss }),
    ...(step?.update.entropy !== undefined && { entropy: step.update.entropy }),
    ...(evaluation !== undefined && { ...evaluation.scores, accuracy: evaluation.scores[evaluation.score] ?? 0 }),
  }
}

/** The row of a run that cannot be read, with the reason as its note. */
const unreadableRow = ({ id, folder }: ViewedRun, error: unknown): RunRow => ({
  id,
  folder,
  name: folder.split('/').at(-1) ?? id,
  recipe: null,
  state: 'stopped',
  step: 0,
  steps: null,
  startedAt: null,
  updatedAt: null,
  model: null,
  data: null,
  command: null,
  version: null,
  machine: null,
  tags: [],
  note: `This run cannot be read: ${errorMessage(error)}`,
  last: {},
})

/** Returns the row of a run in the list of runs, with a note if it cannot be read. */
export const runRow = (run: ViewedRun): Promise<RunRow> => readRow(run).catch((error) => unreadableRow(run, error))

const readRow = async ({ id, folder, ...run }: ViewedRun): Promise<RunRow> => {
  const [records, note] = [await run.log(), await run.note()]
  const { settings, recipe, state, startedAt, updatedAt, command, version, machine } = records
  return {
    id,
    folder,
    name: note.name ?? folder.split('/').at(-1) ?? id,
    recipe,
    state,
    step: records.steps.at(-1)?.step ?? records.columns?.step.at(-1) ?? 0,
    steps: typeof settings.steps === 'number' ? settings.steps : null,
    startedAt,
    updatedAt,
    model: textOrNull(settings.model),
    data: textOrNull(settings.dataset) ?? (recipe === null ? null : 'generated'),
    command,
    version,
    machine,
    tags: note.tags ?? [],
    note: note.note ?? '',
    last: lastOf(records),
  }
}

/** Returns everything about a run but its metrics and rollouts. */
export const runAnswer = async (run: ViewedRun): Promise<RunAnswer> => {
  const [row, log, rollouts, annotations] = [
    await readRow(run),
    await run.log(),
    await run.rollouts(),
    await run.annotations(),
  ]
  const { best } = log
  const partNames = [...new Set(rollouts.flatMap((each) => Object.keys(each.row.parts)))]
  const features: readonly Feature[] = [
    ...(run.access === 'write' ? (['write'] as const) : []),
    ...(partNames.length > 0 ? (['rescore'] as const) : []),
  ]
  return {
    ...row,
    settings: log.settings,
    parts: log.parts,
    metricNames: Object.keys(columnsOf(log).columns),
    alarms: await run.alarms(),
    evaluations: log.evaluations.map(({ samples: _, ...evaluation }) => evaluation),
    best: best === null ? null : { step: best.step, name: best.name, value: best.scores[best.score] ?? 0 },
    checkpoints: log.checkpoints,
    batches: log.batches,
    rollouts: rollouts.length,
    partNames,
    features,
    labels: [...new Set([...annotations.values()].flatMap(({ labels }) => labels))].sort(),
  }
}
