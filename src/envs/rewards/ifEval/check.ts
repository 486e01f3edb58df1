/** Checks of instructions: functions of the arguments that return a function of the text. */
import type { InstructionArguments, InstructionId } from '../../../data/datasets/ifEvalInstructions.js'
import type { LanguageDetector } from './language.js'

/** Returns true if a text keeps an instruction. Pure, and linear in the text. */
export type Check = (text: string) => boolean

/** The dependencies of checks besides their arguments. */
export interface CheckContext {
  readonly detectLanguage: LanguageDetector
}

/** Checks of some kinds, by id. */
export type CheckTable<I extends InstructionId> = {
  readonly [K in I]: (args: InstructionArguments[K], context: CheckContext) => Check
}

/** Compares a count by one of the two relations that instructions use. */
export const compares = (count: number, relation: 'less than' | 'at least', threshold: number): boolean =>
  relation === 'less than' ? count < threshold : count >= threshold
