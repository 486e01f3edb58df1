/** Checks which IFEval instructions a reply keeps. */
import type { Instruction } from '../../../data/datasets/ifEval.js'
import {
  INSTRUCTION_ARGUMENTS,
  type InstructionArguments,
  type InstructionId,
  isInstructionId,
} from '../../../data/datasets/ifEvalInstructions.js'
import type { Check, CheckContext, CheckTable } from './check.js'
import { FORMATS } from './formats.js'
import { KEYWORDS } from './keywords.js'
import { LENGTHS } from './lengths.js'
import { isBlankText, stripText } from './pythonText.js'
import { WHOLES } from './wholes.js'

/**
 * The verdicts on a reply. Strict verdicts read it unchanged; loose ones ignore a line around it
 * and emphasis in it.
 */
export interface IFEvalScoreData {
  /** True if all instructions are kept. */
  readonly promptLevelStrict: boolean
  readonly promptLevelLoose: boolean
  /** One verdict for each instruction, in the order of the row. */
  readonly instLevelStrict: readonly boolean[]
  readonly instLevelLoose: readonly boolean[]
}

const CHECKS: CheckTable<InstructionId> = { ...KEYWORDS, ...LENGTHS, ...FORMATS, ...WHOLES }

type Schema<I extends InstructionId> = {
  readonly safeParse: (value: unknown) => {
    readonly data?: InstructionArguments[I] | undefined
    readonly error?: { readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] }
  }
}
const SCHEMAS: { readonly [I in InstructionId]: Schema<I> } = INSTRUCTION_ARGUMENTS

/** Returns the check of an instruction, or its problems. */
const checkOf = <I extends InstructionId>(
  id: I,
  kwargs: Instruction['kwargs'],
  context: CheckContext,
): Check | readonly string[] => {
  const { data, error } = SCHEMAS[id].safeParse(kwargs)
  return data === undefined
    ? (error?.issues ?? []).map(({ path, message }) => `${id}: ${[...path, message].map(String).join(': ')}`)
    : CHECKS[id](data, context)
}

const checksOf = (instructions: readonly Instruction[], context: CheckContext): readonly Check[] => {
  const found = instructions.map(({ id, kwargs }) =>
    isInstructionId(id) ? checkOf(id, kwargs, context) : [`there is no instruction ${JSON.stringify(id)}`],
  )
  const problems = found.flatMap((check) => (typeof check === 'function' ? [] : check))
  if (problems.length > 0 || found.length === 0) {
    throw new RangeError(`ifEvalScore: ${problems.join('; ') || 'there must be an instruction'}`)
  }
  return found.filter((check) => typeof check === 'function')
}

/**
 * Returns the variants that the loose verdict reads: the reply without its first line, its last, or
 * both, and all four without asterisks.
 */
const looseVariants = (text: string): readonly string[] => {
  const lines = text.split('\n')
  const cut = [lines.slice(1), lines.slice(0, -1), lines.slice(1, -1)].map((rest) => stripText(rest.join('\n')))
  const read = new Set([text, ...cut].flatMap((each) => [each, each.replaceAll('*', '')]))
  return [...read].filter((each) => each !== text && !isBlankText(each))
}

/**
 * Returns the verdicts on a reply.
 *
 * Strict: the reply is not blank, and the check holds. Loose: one of eight variants of it is not
 * blank, and the check holds for that one.
 *
 * Errors   throws RangeError that lists all problems of the instructions; rows of `IFEVAL` are
 *          checked when they are loaded.
 * Cost     linear in the reply, for each instruction and variant.
 * Source   Zhou et al. 2023, arXiv:2311.07911, and its code. Here arguments are never drawn at
 *          random, keywords are texts and not patterns, NaN is not JSON, and a reply of unknown
 *          language is in no language.
 *
 * @example
 * ifEvalScore('No, thanks', [{ id: 'punctuation:no_comma', kwargs: {} }], { detectLanguage: () => 'en' }).promptLevelStrict // false
 */
export const ifEvalScore = (
  reply: string,
  instructions: readonly Instruction[],
  context: CheckContext,
): IFEvalScoreData => {
  const checks = checksOf(instructions, context)
  const variants = looseVariants(reply)
  const instLevelStrict = checks.map((check) => !isBlankText(reply) && check(reply))
  const instLevelLoose = checks.map((check, i) => instLevelStrict[i]! || variants.some(check))
  return {
    promptLevelStrict: instLevelStrict.every(Boolean),
    promptLevelLoose: instLevelLoose.every(Boolean),
    instLevelStrict,
    instLevelLoose,
  }
}
