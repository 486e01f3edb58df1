/**
 * The 25 kinds of instruction of IFEval (Zhou et al. 2023, arXiv:2311.07911, table 1), and the
 * arguments of each.
 */
import { z } from 'zod'

/** The languages of IFEval's instructions, as ISO 639-1 codes. */
const LANGUAGES = [
  ...(['ar', 'bg', 'bn', 'de', 'en', 'es', 'fa', 'fi', 'fr', 'gu', 'he', 'hi', 'it', 'ja', 'kn'] as const),
  ...(['ko', 'ml', 'mr', 'ne', 'pa', 'pl', 'pt', 'ru', 'sw', 'ta', 'te', 'th', 'uk', 'ur', 'vi'] as const),
] as const

/** A word or phrase to search for, of bounded length so that the search is fast. */
const phrase = z.string().regex(/\S/, 'must not be empty').max(256)
const words = z.array(phrase).min(1)
const count = z.number().int().nonnegative()
const relation = z.enum(['less than', 'at least'])
const none = z.strictObject({})

/** The arguments by the id of the instruction, with the names of the dataset. */
export const INSTRUCTION_ARGUMENTS = {
  'keywords:existence': z.strictObject({ keywords: words }),
  'keywords:frequency': z.strictObject({ keyword: phrase, frequency: count, relation }),
  'keywords:forbidden_words': z.strictObject({ forbidden_words: words }),
  'keywords:letter_frequency': z.strictObject({
    letter: z.string().regex(/^\S$/u, 'must be one character'),
    let_frequency: count,
    let_relation: relation,
  }),
  'language:response_language': z.strictObject({ language: z.enum(LANGUAGES) }),
  'length_constraints:number_sentences': z.strictObject({ num_sentences: count, relation }),
  'length_constraints:number_paragraphs': z.strictObject({ num_paragraphs: count }),
  'length_constraints:number_words': z.strictObject({ num_words: count, relation }),
  'length_constraints:nth_paragraph_first_word': z
    .strictObject({ num_paragraphs: count, nth_paragraph: count.min(1), first_word: phrase })
    .refine(({ num_paragraphs, nth_paragraph }) => nth_paragraph <= num_paragraphs, {
      path: ['nth_paragraph'],
      error: 'must be one of the paragraphs',
    }),
  'detectable_content:number_placeholders': z.strictObject({ num_placeholders: count }),
  'detectable_content:postscript': z.strictObject({ postscript_marker: phrase }),
  'detectable_format:number_bullet_lists': z.strictObject({ num_bullets: count }),
  'detectable_format:constrained_response': none,
  'detectable_format:number_highlighted_sections': z.strictObject({ num_highlights: count }),
  'detectable_format:multiple_sections': z.strictObject({ section_spliter: phrase, num_sections: count }),
  'detectable_format:json_format': none,
  'detectable_format:title': none,
  'combination:two_responses': none,
  'combination:repeat_prompt': z.strictObject({ prompt_to_repeat: z.string().regex(/\S/, 'must not be empty') }),
  'startend:end_checker': z.strictObject({ end_phrase: z.string().regex(/\S/, 'must not be empty') }),
  'startend:quotation': none,
  'change_case:capital_word_frequency': z.strictObject({ capital_frequency: count, capital_relation: relation }),
  'change_case:english_capital': none,
  'change_case:english_lowercase': none,
  'punctuation:no_comma': none,
} as const

export type InstructionId = keyof typeof INSTRUCTION_ARGUMENTS

/** The arguments of each kind. */
export type InstructionArguments = {
  readonly [I in InstructionId]: Readonly<z.output<(typeof INSTRUCTION_ARGUMENTS)[I]>>
}

/** Returns true if the id is an instruction. */
export const isInstructionId = (id: string): id is InstructionId => Object.hasOwn(INSTRUCTION_ARGUMENTS, id)
