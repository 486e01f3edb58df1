/**
 * IFEval's instructions about a whole reply: parts, start and end, case, punctuation and language.
 */
import { type CheckContext, type CheckTable, compares } from './check.js'
import { sentences } from './punkt.js'
import { isBlankText, isLower, isUpper, stripEndOf, stripStartOf, stripText } from './pythonText.js'
import { wordTokens } from './wordTokens.js'

/**
 * Returns true for two different answers separated by six asterisks. Nothing is required before the
 * first and after the last asterisks.
 */
const isTwoResponses = (text: string): boolean => {
  const parts = text.split('******')
  const isEdge = (index: number): boolean => index === 0 || index === parts.length - 1
  if (parts.some((part, i) => isBlankText(part) && !isEdge(i))) return false
  const [first, second, ...others] = parts.filter((part) => !isBlankText(part)).map(stripText)
  return second !== undefined && others.length === 0 && first !== second
}

/** Counts words whose letters with case are all capitals. */
const capitalCount = (text: string): number =>
  sentences(text)
    .filter((sentence) => /\p{Uppercase}/u.test(sentence))
    .reduce((count, sentence) => count + wordTokens(sentence).filter(isUpper).length, 0)

/**
 * Returns true for English. A text of unknown language is not English. The published checks count
 * it as English, and a reply of numbers as the required language.
 */
const isEnglish = ({ detectLanguage }: CheckContext, text: string): boolean => detectLanguage(text) === 'en'

export const WHOLES: CheckTable<
  | 'combination:two_responses'
  | 'combination:repeat_prompt'
  | 'startend:end_checker'
  | 'startend:quotation'
  | 'change_case:capital_word_frequency'
  | 'change_case:english_capital'
  | 'change_case:english_lowercase'
  | 'punctuation:no_comma'
  | 'language:response_language'
> = {
  'combination:two_responses': () => isTwoResponses,
  'combination:repeat_prompt': ({ prompt_to_repeat }) => {
    const prompt = stripText(prompt_to_repeat).toLowerCase()
    return (text) => stripText(text).toLowerCase().startsWith(prompt)
  },
  'startend:end_checker': ({ end_phrase }) => {
    const phrase = stripText(end_phrase).toLowerCase()
    return (text) =>
      stripStartOf(stripEndOf(stripText(text), '"'), '"')
        .toLowerCase()
        .endsWith(phrase)
  },
  'startend:quotation': () => (text) => {
    const bare = stripText(text)
    return bare.length > 1 && bare.startsWith('"') && bare.endsWith('"')
  },
  'change_case:capital_word_frequency':
    ({ capital_frequency, capital_relation }) =>
    (text) =>
      compares(capitalCount(text), capital_relation, capital_frequency),
  'change_case:english_capital': (_, context) => (text) => isUpper(text) && isEnglish(context, text),
  'change_case:english_lowercase': (_, context) => (text) => isLower(text) && isEnglish(context, text),
  'punctuation:no_comma': () => (text) => !text.includes(','),
  'language:response_language':
    ({ language }, { detectLanguage }) =>
    (text) =>
      detectLanguage(text) === language,
}
