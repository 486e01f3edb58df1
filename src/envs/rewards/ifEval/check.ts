/**
 * What it is to check an instruction: its arguments are given first, and then as many texts as
 * there are.
 */
import type { InstructionArguments, InstructionId } from '../../../data/datasets/ifEvalInstructions.js'
import type { LanguageDetector } from './language.js'

/** Whether a text keeps an instruction. Pure, and in time linear in the text. */
export type Check = (text: string) => boolean

/** What some checks need besides the arguments. */
export interface CheckContext {
  readonly detectLanguage: LanguageDetector
}

/** Checks of some kinds, by id. */
export type CheckTable<I extends InstructionId> = {
  readonly [K in I]: (args: InstructionArguments[K], context: CheckContext) => Check
}

/** The two comparisons that instructions make. */
export const compares = (count: number, relation: 'less than' | 'at least', threshold: number): boolean =>
  relation === 'less than' ? count < threshold : count >= threshold
