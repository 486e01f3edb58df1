/** Tasks that a run would both train on and evaluate. */
import { plainNumbers } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { IdentifiedRows } from '../../data/task.js'
import { type Evaluator, HELD_OUT } from '../metrics/evaluation.js'

/** Most training rows that are compared. Of an endless source, fewer are made. */
const COMPARED = { finite: 1_000_000, endless: 256 } as const

/** Rows of a source, which may have any columns. */
type Row = Readonly<Record<string, unknown>> & { readonly id: string }

/** Yields the readable rows of a source, up to a number. */
function* rowsOf({ size, at }: IdentifiedRows, most: number): Generator<Row> {
  for (let index = 0; index < (size === 'endless' ? most : Math.min(most, size)); index++) {
    const row = at(index)
    if (E.isRight(row)) yield row.right as Row // by its comment
  }
}

const questionOf = ({ query, answer }: Row): string => JSON.stringify([query, answer], plainNumbers)

/** The columns of a row as text, without its id. */
const contentOf = (row: Row): string => {
  const { id, ...content } = row
  return JSON.stringify(id === undefined ? row : content, plainNumbers)
}

/**
 * Returns the text by which tasks are compared: their query and answer, or all columns if these do
 * not tell the given tasks apart.
 */
const identityOf = (tasks: readonly Row[]): ((row: Row) => string) => {
  const questions = new Set(tasks.map(questionOf))
  return tasks.every(({ query }) => query !== undefined) && questions.size === tasks.length ? questionOf : contentOf
}

/** Returns the evaluated tasks that are also trained on, by their content. */
const sharedRows = (trained: IdentifiedRows, { source, tasks }: Evaluator): readonly Row[] => {
  if (source === undefined) return []
  const evaluated = [...rowsOf(source, tasks)]
  const identity = identityOf(evaluated)
  const known = new Map(evaluated.map((row) => [identity(row), row]))
  const shared = new Set<Row>()
  for (const row of rowsOf(trained, COMPARED[trained.size === 'endless' ? 'endless' : 'finite'])) {
    const same = known.get(identity(row))
    if (same !== undefined) shared.add(same)
  }
  return [...shared]
}

/** Returns the indices of the rows that do not also occur in `others`, whatever their ids. */
export const indicesWithoutShared = (rows: readonly unknown[], others: readonly unknown[]): readonly number[] => {
  const [own, known] = [rows as readonly Row[], others as readonly Row[]] // only columns are read
  const identity = identityOf(own)
  const taken = new Set(known.map(identity))
  return own.flatMap((row, index) => (taken.has(identity(row)) ? [] : [index]))
}

/** The evaluators of a run after the comparison. */
interface CheckedEvaluators {
  readonly evaluators: readonly Evaluator[]
  /** A message for each evaluator whose tasks must not be trained on, and are. */
  readonly problems: readonly string[]
}

/**
 * Compares the tasks of evaluators with those of training. An evaluator with the default name that
 * allows training tasks is named after them.
 */
export const checkedEvaluators = (
  trained: IdentifiedRows | undefined,
  evaluators: readonly Evaluator[],
): CheckedEvaluators => {
  if (trained === undefined) return { evaluators, problems: [] }
  const compared = evaluators.map((evaluator) => ({ evaluator, shared: sharedRows(trained, evaluator) }))
  return {
    problems: compared.flatMap(({ evaluator: { name, tasks, sharedTasks }, shared: [first, ...others] }) =>
      first === undefined || sharedTasks === 'allow'
        ? []
        : [
            `${1 + others.length} of the ${tasks} tasks of the evaluation '${name}' are also trained on, such as '${first.id}': hold other tasks out, or allow it (sharedTasks: 'allow' of the evaluation, or --shared-tasks allow)`,
          ],
    ),
    evaluators: compared.map(({ evaluator, shared }) => {
      if (shared.length === 0 || evaluator.name !== HELD_OUT) return evaluator
      return { ...evaluator, name: shared.length < evaluator.tasks ? 'partly held out' : 'training tasks' }
    }),
  }
}
