/** What is kept of a batch that raised an alarm, to be looked at and to be learned from again. */
import type { FileContents } from '../../core/capabilities.js'
import { tensorDictParts } from '../../data/codecs/tensorDictFileWrite.js'
import { type Data, data, meta, type Ragged, ragged } from '../../data/tensorDict/leaf.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { TrainingRows } from '../stepRows.js'
import type { Alarm } from './alarms.js'
import type { TrajectoryRecord } from './records.js'
import type { RunPaths } from './runFolder.js'

/** A step that raised alarms. */
export interface AlarmedStep {
  readonly alarms: readonly Alarm[]
  /** What was measured of it. */
  readonly record: object
  /** What it learned from, or was to learn from. */
  readonly rows: TrainingRows
  /** All that was sampled for it. */
  readonly trajectories: readonly TrajectoryRecord[]
}

/** Where the batch of a step is kept that raised an alarm. */
export const alarmFolder = ({ alarms }: Pick<RunPaths, 'alarms'>, step: number): string =>
  `${alarms}/step-${String(step).padStart(6, '0')}`

/** A list of the rows as an entry: numbers by token, or one number for each row. */
const entryOf = (list: readonly number[] | readonly ArrayLike<number>[], type: 'int32' | 'float32'): Data | Ragged => {
  const isByRow = (lists: typeof list): lists is readonly number[] => typeof lists[0] === 'number'
  return isByRow(list) ? data(list) : ragged(type, list)
}

/**
 * Rows to learn from as a TensorDict `[rows]` without tensors: their lists by name, and `temperature`.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -2]], advantages: [1], temperature: 1 }
 * rowsToTensorDict(rows).batchShape // [1]
 */
export const rowsToTensorDict = ({ temperature, ...lists }: TrainingRows): TensorDict =>
  TensorDict(
    {
      ...Object.fromEntries(
        Object.entries(lists).map(([name, list]) => [
          name,
          entryOf(list, name === 'prompts' || name === 'completions' ? 'int32' : 'float32'),
        ]),
      ),
      temperature: meta(temperature),
    },
    [lists.completions.length],
  )

const jsonText = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`

/** The files of `alarmFolder`. */
export const alarmedFiles = ({
  alarms,
  record,
  rows,
  trajectories,
}: AlarmedStep): Readonly<Record<string, FileContents>> => ({
  'alarms.json': jsonText(alarms),
  'record.json': jsonText(record),
  'rows.td': tensorDictParts(rowsToTensorDict(rows)),
  'trajectories.jsonl': trajectories.map((each) => `${JSON.stringify(each)}\n`).join(''),
})
