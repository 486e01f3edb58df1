/**
 * IFEval (Zhou et al. 2023, arXiv:2311.07911): prompts with instructions that a program can check.
 */
import { z } from 'zod'
import type { RowTask } from '../task.js'
import { INSTRUCTION_ARGUMENTS, isInstructionId } from './ifEvalInstructions.js'
import type { DatasetFormat } from './rows.js'

/**
 * Removes null arguments. Parquet files give every instruction all possible arguments, and set
 * those that it does not have to null.
 */
const withoutNulls = (kwargs: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(kwargs).filter(([, value]) => value !== null && value !== undefined))

const rowSchema = z
  .object({
    key: z.number().int().nonnegative(),
    prompt: z.string().regex(/\S/, 'must not be empty'),
    instruction_id_list: z.array(z.string()).min(1),
    kwargs: z.array(z.record(z.string(), z.unknown()).nullable()),
  })
  .check((context) => {
    const { instruction_id_list: ids, kwargs } = context.value
    const report = (path: readonly PropertyKey[], message: string): void => {
      context.issues.push({ code: 'custom', message, path: [...path], input: context.value })
    }
    if (ids.length !== kwargs.length) report(['kwargs'], `${kwargs.length} for ${ids.length} instructions`)
    for (const [i, id] of ids.entries()) {
      if (!isInstructionId(id)) {
        report(['instruction_id_list', i], `unknown instruction ${JSON.stringify(id)}`)
      } else if (i < kwargs.length) {
        const read = INSTRUCTION_ARGUMENTS[id].safeParse(withoutNulls(kwargs[i] ?? {}))
        for (const { path, message } of read.error?.issues ?? []) report(['kwargs', i, ...path], message)
      }
    }
  })
  .transform(({ instruction_id_list, kwargs, ...row }) => ({
    ...row,
    instructions: instruction_id_list.map((id, i) => ({ id, kwargs: withoutNulls(kwargs[i] ?? {}) })),
  }))

/** One instruction of a prompt, such as `length_constraints:number_words`, and its arguments. */
export interface Instruction {
  readonly id: string
  readonly kwargs: Readonly<Record<string, unknown>>
}

/** A row of IFEval. */
export interface IfEvalRow {
  readonly key: number
  readonly prompt: string
  readonly instructions: readonly Instruction[]
}

/**
 * IFEval. `prompt` is the query. There is no reference answer, so `answer` is empty; the
 * instructions are in the row. A row with an unknown instruction or a missing argument is refused
 * with all its problems; the published code draws a missing argument at random.
 */
export const IFEVAL: DatasetFormat<IfEvalRow, RowTask<IfEvalRow>> = {
  name: 'ifeval',
  schema: rowSchema,
  task: (row, id) => ({ id, query: row.prompt, answer: '', row }),
}
