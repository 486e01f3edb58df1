/** Games of one player against a secret: a word to guess, and twenty questions. */
import { checkOptions, refuse } from '@tandem-rl/base'
import { TWENTY_QUESTIONS_OPTIONS, WORD_GUESS_OPTIONS } from '../optionKinds.js'
import { requireWhole } from './boards.js'
import { defineGame, equalOutcomes, type Game } from './game.js'

/** The secret, once it is drawn, and the actions of the player. */
export interface SecretPosition {
  readonly secret: number | null
  readonly moves: readonly number[]
}

const START: SecretPosition = { secret: null, moves: [] }

const nextOf = ({ secret, moves }: SecretPosition, action: number): SecretPosition =>
  secret === null ? { secret: action, moves } : { secret, moves: [...moves, action] }

export interface WordGuessOptions {
  /** Different words of the same length, in capital letters. Default: 60 words of five letters. */
  readonly words?: readonly string[]
  /** Default 6. */
  readonly guesses?: number
}

/** The default words. */
export const WORDS: readonly string[] = (
  'APPLE BREAD CHAIR DANCE EARTH FLAME GRAPE HOUSE IMAGE JUICE KNIFE LEMON MUSIC NIGHT OCEAN PAPER QUEEN RIVER ' +
  'STONE TABLE UNCLE VOICE WATER YOUTH ZEBRA BEACH CLOUD DREAM EAGLE FIELD GLASS HEART INPUT JELLY LIGHT MONEY ' +
  'NURSE ONION PLANT QUIET ROBOT SHEEP TRAIN UNION VISIT WHEEL YEAST ANGLE BRUSH CROWN DRIVE ELBOW FRUIT GIANT ' +
  'HONEY IVORY LOCAL MAPLE NOVEL ORBIT'
).split(' ')

/**
 * The marks of a guess: G for a letter in its place, Y for one elsewhere, X for none. Each letter
 * counts once.
 */
export const marksOf = (secret: string, guess: string): string => {
  const rest = [...secret].filter((letter, i) => guess[i] !== letter)
  return [...guess]
    .map((letter, i) => {
      if (secret[i] === letter) return 'G'
      const at = rest.indexOf(letter)
      if (at === -1) return 'X'
      rest.splice(at, 1)
      return 'Y'
    })
    .join('')
}

/**
 * Guessing a word from marks for its letters, as in Wordle. Action `i` guesses word `i`. The player
 * gets 1 for the word, and 0 if all guesses are wrong.
 *
 * Errors   throws RangeError unless the words are different and equally long, and `guesses` is at
 *          least 1.
 *
 * @example
 * wordGuess({ words: ['CAT', 'CAR'] }).observation(replayGame(wordGuess({ words: ['CAT', 'CAR'] }), [0, 1]), 0) // 'CAR GGX'
 */
export const wordGuess = (options: WordGuessOptions = {}): Game<SecretPosition> => {
  checkOptions('wordGuess', options, WORD_GUESS_OPTIONS)
  const { words = WORDS, guesses = 6 } = options
  requireWhole('wordGuess', { guesses })
  refuse('wordGuess', [
    words.length === 0 && 'words must not be empty',
    words.some((word) => word.length !== words[0]!.length) && 'words must have the same length',
    new Set(words).size < words.length && 'words must be different',
  ])
  const isOver = ({ secret, moves }: SecretPosition): boolean =>
    secret !== null && (moves.at(-1) === secret || moves.length >= guesses)
  const seen = ({ secret, moves }: SecretPosition): string =>
    moves.map((guess) => `${words[guess]} ${marksOf(words[secret!]!, words[guess]!)}`).join('\n')
  return defineGame<SecretPosition>({
    name: 'word_guess',
    players: 1,
    utility: 'generalSum',
    rules:
      `Find a secret word of ${words[0]!.length} letters with at most ${guesses} guesses. After each guess you see a mark for ` +
      'each of its letters: G if it is in its place, Y if it is elsewhere in the word, and X if it is not in the word.',
    initial: START,
    turn: (position) => (position.secret === null ? 'chance' : isOver(position) ? 'over' : 0),
    legalActions: () => words.map((_, index) => index),
    next: nextOf,
    chance: () => equalOutcomes(words.map((_, index) => index)),
    returns: ({ secret, moves }) => [moves.at(-1) === secret ? 1 : 0],
    text: (position) => `${position.secret === null ? '' : words[position.secret]}\n${seen(position)}`,
    actionText: (_position, actor, action) => (actor === 'chance' ? `Secret ${words[action]}` : words[action]!),
    views: { observation: seen, informationState: seen },
  })
}

/** A thing to find out, and the properties that it has. */
export interface SecretThing {
  readonly name: string
  readonly properties: readonly string[]
}

export interface TwentyQuestionsOptions {
  /** Things with different names. Default: 24 animals, plants, foods and objects. */
  readonly things?: readonly SecretThing[]
  /** Questions and guesses together. Default 20. */
  readonly questions?: number
}

const thing = (name: string, properties: string): SecretThing => ({ name, properties: properties.split(', ') })

const THINGS: readonly SecretThing[] = [
  thing('dog', 'alive, an animal, at home, with fur'),
  thing('cat', 'alive, an animal, at home, with fur, small'),
  thing('horse', 'alive, an animal, large, with fur'),
  thing('mouse', 'alive, an animal, small, with fur'),
  thing('whale', 'alive, an animal, large, in water'),
  thing('goldfish', 'alive, an animal, small, in water, at home'),
  thing('eagle', 'alive, an animal, able to fly, large'),
  thing('sparrow', 'alive, an animal, able to fly, small'),
  thing('bee', 'alive, an animal, able to fly, small, dangerous'),
  thing('shark', 'alive, an animal, large, in water, dangerous'),
  thing('oak', 'alive, large'),
  thing('rose', 'alive, small, colorful'),
  thing('apple', 'edible, small, sweet, colorful'),
  thing('bread', 'edible, at home'),
  thing('cheese', 'edible, small'),
  thing('honey', 'edible, sweet'),
  thing('car', 'large, with a motor, able to move'),
  thing('airplane', 'large, with a motor, able to move, able to fly'),
  thing('ship', 'large, with a motor, able to move, in water'),
  thing('bicycle', 'able to move'),
  thing('chair', 'at home'),
  thing('lamp', 'at home, electric'),
  thing('telephone', 'at home, electric, small'),
  thing('knife', 'at home, small, dangerous'),
]

/**
 * Twenty questions. An action asks for a property, or guesses a thing. The player gets 1 for the
 * thing, and 0 when the questions are used up.
 *
 * Errors   throws RangeError unless there are things with different names and `questions` is at
 *          least 1.
 *
 * @example
 * twentyQuestions().actionText(twentyQuestions().initial, 0, 0) // 'Is it alive?'
 */
export const twentyQuestions = (options: TwentyQuestionsOptions = {}): Game<SecretPosition> => {
  checkOptions('twentyQuestions', options, TWENTY_QUESTIONS_OPTIONS)
  const { things = THINGS, questions = 20 } = options
  requireWhole('twentyQuestions', { questions })
  refuse('twentyQuestions', [
    things.length === 0 && 'things must not be empty',
    new Set(things.map(({ name }) => name)).size < things.length && 'things must have different names',
  ])
  const properties = [...new Set(things.flatMap((each) => each.properties))]
  const guessOf = (action: number): number => action - properties.length
  const question = (action: number): string =>
    action < properties.length ? `Is it ${properties[action]}?` : `Is it the ${things[guessOf(action)]!.name}?`
  const answer = (secret: number, action: number): string => {
    const isSo =
      action < properties.length ? things[secret]!.properties.includes(properties[action]!) : guessOf(action) === secret
    return isSo ? 'yes' : 'no'
  }
  const isFound = ({ secret, moves }: SecretPosition): boolean => moves.length > 0 && guessOf(moves.at(-1)!) === secret
  const seen = ({ secret, moves }: SecretPosition): string =>
    moves.map((action) => `${question(action)} ${answer(secret!, action)}`).join('\n')
  return defineGame<SecretPosition>({
    name: 'twenty_questions',
    players: 1,
    utility: 'generalSum',
    rules:
      `Find out which thing is meant, with at most ${questions} questions. Each is answered with yes or no. You win by ` +
      'asking for the thing itself.',
    initial: START,
    turn: (position) =>
      position.secret === null ? 'chance' : isFound(position) || position.moves.length >= questions ? 'over' : 0,
    legalActions: () => Array.from({ length: properties.length + things.length }, (_, action) => action),
    next: nextOf,
    chance: () => equalOutcomes(things.map((_, index) => index)),
    returns: (position) => [isFound(position) ? 1 : 0],
    text: (position) => `${position.secret === null ? '' : things[position.secret]!.name}\n${seen(position)}`,
    actionText: (_position, actor, action) =>
      actor === 'chance' ? `Secret ${things[action]!.name}` : question(action),
    views: { observation: seen, informationState: seen },
  })
}
