/**
 * IFEval's kinds of instruction with replies that keep them and replies that do not, each by the
 * words of its definition.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { IfEvalRow, Instruction } from '../../src/data/datasets/ifEval.js'
import type { InstructionArguments, InstructionId } from '../../src/data/datasets/ifEvalInstructions.js'
import type { RowTask } from '../../src/data/task.js'
import { type LanguageDetector, loadLanguageDetector } from '../../src/envs/rewards/ifEval/language.js'

/** The real detector. */
export const loadedDetector = async (): Promise<LanguageDetector> => {
  const detector = await loadLanguageDetector()()
  if (E.isLeft(detector)) throw new Error(detector.left.reason)
  return detector.right
}

export interface KindSample<I extends InstructionId = InstructionId> {
  readonly kwargs: InstructionArguments[I]
  readonly keeps: readonly string[]
  readonly breaks: readonly string[]
}

const SPANISH = 'Los niños van a la escuela cada mañana y aprenden a leer.'

export const KIND_SAMPLES: { readonly [I in InstructionId]: KindSample<I> } = {
  'keywords:existence': {
    kwargs: { keywords: ['river', 'Stone'] },
    keeps: ['The RIVER has a stone.', 'riverside stonework'],
    breaks: ['The river.', 'A stone.', 'Nothing of it.'],
  },
  'keywords:frequency': {
    kwargs: { keyword: 'fox', frequency: 2, relation: 'at least' },
    keeps: ['A fox and a Fox.', 'foxfox', 'Fox, fox, foxes.'],
    breaks: ['One fox.', 'fo x fo x'],
  },
  'keywords:forbidden_words': {
    kwargs: { forbidden_words: ['can', 'not'] },
    keeps: ['I cannot.', 'Candy and knots.'],
    breaks: ['Yes, I CAN.', 'Do not.', 'can-opener'],
  },
  'keywords:letter_frequency': {
    kwargs: { letter: 'q', let_frequency: 3, let_relation: 'at least' },
    keeps: ['Quick quiet queens.', 'QqQ'],
    breaks: ['Quick queens.', 'none'],
  },
  'language:response_language': {
    kwargs: { language: 'es' },
    keeps: [SPANISH],
    breaks: ['The children go to school every morning.', 'Die Kinder gehen jeden Morgen in die Schule.', '12345'],
  },
  'length_constraints:number_sentences': {
    kwargs: { num_sentences: 3, relation: 'at least' },
    keeps: ['One. Two! Three?', 'Dr. Who came. He left. They waved.'],
    breaks: ['One. Two.', 'Dr. Who came at 5 p.m. on Monday.'],
  },
  'length_constraints:number_paragraphs': {
    kwargs: { num_paragraphs: 2 },
    keeps: ['One\n***\nTwo', '***\nOne\n***\nTwo\n***'],
    breaks: ['One', 'One\n***\nTwo\n***\nThree', 'One\n***\n***\nTwo', 'One\n\nTwo'],
  },
  'length_constraints:number_words': {
    kwargs: { num_words: 4, relation: 'less than' },
    keeps: ['One two three', 'one_two three-four'],
    breaks: ['One two three four', "it's four words"],
  },
  'length_constraints:nth_paragraph_first_word': {
    kwargs: { num_paragraphs: 2, nth_paragraph: 2, first_word: 'Finally' },
    keeps: ['First.\n\nFinally, the end.', 'First.\n\n"FINALLY!"'],
    breaks: ['Finally.\n\nFirst.', 'First.\n\nFinally.\n\nMore.', 'First.\n\nAt last, finally.'],
  },
  'detectable_content:number_placeholders': {
    kwargs: { num_placeholders: 2 },
    keeps: ['Dear [name], of [address].', '[a][b][c]'],
    breaks: ['Dear [name].', '[a\nb] [c', 'none'],
  },
  'detectable_content:postscript': {
    kwargs: { postscript_marker: 'P.S.' },
    keeps: ['Bye.\nP.S. One more.', 'p. s. low'],
    breaks: ['Bye.', 'PS One more.'],
  },
  'detectable_format:number_bullet_lists': {
    kwargs: { num_bullets: 2 },
    keeps: ['* One\n* Two', 'List:\n- One\n  * Two'],
    breaks: ['* One', '* One\n* Two\n* Three', '** One\n** Two', 'One\nTwo'],
  },
  'detectable_format:constrained_response': {
    kwargs: {},
    keeps: ['My answer is yes.', 'Well. My answer is maybe.'],
    breaks: ['my answer is yes.', 'My answer is perhaps.', 'Yes.'],
  },
  'detectable_format:number_highlighted_sections': {
    kwargs: { num_highlights: 2 },
    keeps: ['*one* and *two*', '*one* and **two**'],
    breaks: ['*one*', '* * * *', '*one\ntwo*'],
  },
  'detectable_format:multiple_sections': {
    kwargs: { section_spliter: 'SECTION', num_sections: 2 },
    keeps: ['SECTION 1\nOne\nSECTION 2\nTwo', 'SECTION 1 a SECTION 2 b SECTION 3'],
    breaks: ['SECTION 1\nOne', 'Section 1\nSection 2', 'SECTION one\nSECTION two'],
  },
  'detectable_format:json_format': {
    kwargs: {},
    keeps: ['{"a": [1, 2.5, null]}', '```json\n{"a": 1}\n```', '```\n"text"\n```'],
    breaks: ["{'a': 1}", '{"a": 1,}', 'Here: {"a": 1}', 'NaN'],
  },
  'detectable_format:title': {
    kwargs: {},
    keeps: ['<<A title>>\nText', 'Text <<t>> text'],
    breaks: ['<< >>', '<A title>', '<<A\ntitle>>', 'A title'],
  },
  'combination:two_responses': {
    kwargs: {},
    keeps: ['One\n******\nTwo', '******\nOne\n******\nTwo\n******'],
    breaks: ['One', 'One\n******\nOne', 'One\n******\nTwo\n******\nThree', 'One\n***\nTwo'],
  },
  'combination:repeat_prompt': {
    kwargs: { prompt_to_repeat: 'Write about the river.' },
    keeps: ['Write about the river. It is long.', ' write about the RIVER.'],
    breaks: ['It is long. Write about the river.', 'Write about the river'],
  },
  'startend:end_checker': {
    kwargs: { end_phrase: 'Any other questions?' },
    keeps: ['It is so. Any other questions?', '"It is so. ANY OTHER QUESTIONS?" \n'],
    breaks: ['Any other questions? No.', 'It is so.'],
  },
  'startend:quotation': {
    kwargs: {},
    keeps: ['"All of it."', ' "a" \n'],
    breaks: ['"Open', 'Closed"', '“All of it.”', '"'],
  },
  'change_case:capital_word_frequency': {
    kwargs: { capital_frequency: 2, capital_relation: 'at least' },
    keeps: ['NASA and ESA', 'I am A-OK', 'CANNOT'],
    breaks: ['NASA alone', 'None Of It'],
  },
  'change_case:english_capital': {
    kwargs: {},
    keeps: ['THE CHILDREN GO TO SCHOOL EVERY MORNING.'],
    breaks: ['THE CHILDREN GO to SCHOOL.', 'DIE KINDER GEHEN JEDEN MORGEN IN DIE SCHULE.', '123'],
  },
  'change_case:english_lowercase': {
    kwargs: {},
    keeps: ['the children go to school every morning.'],
    breaks: ['The children go to school.', 'die kinder gehen jeden morgen in die schule.', '123'],
  },
  'punctuation:no_comma': {
    kwargs: {},
    keeps: ['No comma here.', 'a; b: c'],
    breaks: ['A comma, here.', '1,000'],
  },
}

/** A task with these instructions. */
export const ifEvalTask = (...instructions: readonly Instruction[]): RowTask<IfEvalRow> => ({
  id: 'ifeval-0',
  query: 'Write something.',
  answer: '',
  row: { key: 1, prompt: 'Write something.', instructions },
})

/** A reply with the two blocks. */
export const inBlocks = (answer: string): string => `<think>It is so.</think><answer>${answer}</answer>`

/** Texts of a size on which a pattern that tries its parts again and again takes hours. */
export const hostileTexts = (size: number): readonly string[] => {
  const filled = (piece: string): string => piece.repeat(Math.ceil(size / piece.length))
  const signs = [
    'a',
    ' ',
    '\n',
    '.',
    ',',
    '*',
    '-',
    '[',
    '<',
    '>',
    '"',
    "'",
    '`',
    '{',
    '(',
    ')',
    '!',
    '1',
    '\ud800',
    '\u0301',
  ]
  const pieces = [
    '. ',
    '.\n',
    '* \n',
    '[ \n',
    '<<',
    '>>',
    '***',
    '"{"',
    'Section 1',
    'a. ',
    ".'",
    ' \n',
    '\t',
    'can',
    'p.',
    "''",
    'A. B ',
  ]
  const tags = ['<answer>', '</answer>', '<answer></answer>', '<think>']
  return [
    ...[...signs, ...pieces, ...tags, 'Zürich. नमस्ते! 日本。😀 '].map(filled),
    ...[' ', '\n', '.', ')', '"', '-', "'", '['].map((sign) => `a.${filled(sign)}x`),
    `<<${filled('>')} x`,
    `${filled('[')}]`,
  ]
}
