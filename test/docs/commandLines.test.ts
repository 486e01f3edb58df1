/** The command lines of the documents name existing commands, options and settings. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import type { CommandEntry } from '../../src/cli/commandEntry.js'
import { RECIPE_COMMANDS } from '../../src/cli/commands.js'
import { loadRecipe, recipeNames } from '../../src/cli/recipeFile.js'
import { checkedSettings, givenSettings } from '../../src/cli/recipeFlags.js'
import { ALL_COMMANDS } from '../kit/commands.js'
import { codeBlocks } from '../kit/guidePages.js'

const documents = [
  ...['README.md', 'CONTRIBUTING.md'],
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((path) => join('docs', path)),
].filter((path) => path.endsWith('.md') && !path.startsWith('docs/decisions'))

/** A command of a shell up to a comment, a pipe or a redirection. */
const COMMAND = /^((?:\w+=\S* )*(?:npx )?tandem [^#|&;<>`)]*)/

/** Splits the words of a command as a shell does. */
const wordsOf = (line: string): readonly string[] =>
  Array.from(line.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g), ([word]) =>
    word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'),
  )

const inBlocks = (text: string): readonly string[] =>
  ['sh', 'bash'].flatMap((language) =>
    codeBlocks(text, language).flatMap((block) => block.replaceAll(/\\\n\s*/g, ' ').split('\n')),
  )

const inSentences = (text: string): readonly string[] =>
  Array.from(text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/`((?:npx )?tandem [a-z][^`]*)`/g), ([, line]) =>
    line!.replaceAll('\n', ' '),
  )

const commandLines = (lines: readonly string[]): readonly string[] => [
  ...new Set(lines.flatMap((line) => COMMAND.exec(line)?.slice(1, 2) ?? []).map((line) => line.trim())),
]

/** Replaces the placeholder of a recipe. */
const filled = (word: string): string => (word === 'RECIPE' ? 'wordProblems' : word)

const commandOf = async (entry: CommandEntry, words: readonly string[]): Promise<Command> => {
  const command = await entry.load(words)
  const inner = command.commands.find((each) => each.name() === words[0])
  for (const each of [command, ...command.commands]) each.exitOverride().configureOutput({ writeErr: () => {} })
  return inner ?? command
}

/** Commands whose first operand is a recipe, or a run. */
const OF_RECIPES: readonly string[] = ['train', 'eval', 'bench', 'worker']

/** The check of a line: the names of its options, or also its arguments and settings. */
type Depth = 'names' | 'all'

/** Returns what is wrong with a command line, or `undefined`. */
const problemOf = async (line: string, depth: Depth): Promise<string | undefined> => {
  const [, ...given] = wordsOf(line.replace(/^(?:\w+=\S* )*(?:npx )?/, '')).map(filled)
  const [name = '', ...words] = RECIPE_COMMANDS.includes(given[0] ?? '') ? ['train', ...given] : given
  if (name === 'help' || name.startsWith('-')) return undefined
  const entry = ALL_COMMANDS.find((each) => each.name === name)
  if (entry === undefined) return `there is no command ${name}`
  const [first = ''] = words
  const isRecipe = OF_RECIPES.includes(name)
  const recipe = isRecipe && recipeNames().includes(first) ? first : 'wordProblems'
  const command = await commandOf(entry, isRecipe ? [recipe] : words)
  const options = words.filter((word) => word.startsWith('--')).map((word) => word.replace(/=.*/, ''))
  const missing = options.find((option) => !command.options.some(({ long }) => long === option))
  if (missing !== undefined) return `unknown option ${missing}`
  if (depth === 'names') return undefined
  try {
    const { operands } = command.parseOptions([...words])
    const places = command.registeredArguments
    const own = command.parent === null ? operands : operands.slice(1)
    if (!places.some(({ variadic }) => variadic) && own.length > places.length) return `too many arguments: ${own}`
    if (!isRecipe || (first !== recipe && /^[.\w]/.test(first) && !first.startsWith('--'))) return undefined
    const loaded = await loadRecipe(recipe)
    const { config: _, ...flags } = command.opts()
    checkedSettings(loaded.recipe, await givenSettings(loaded.recipe, flags))
    return undefined
  } catch (error) {
    return (error as Error).message // of commander, or a CommandError
  }
}

const texts = documents.map((path) => ({ path, text: readFileSync(path, 'utf8') }))
const linesIn = (find: (text: string) => readonly string[]) =>
  texts.flatMap(({ path, text }) => commandLines(find(text)).map((line) => ({ path, line })))
const [blocks, sentences] = [linesIn(inBlocks), linesIn(inSentences)]

describe('documents', () => {
  it('have many command lines', () => {
    expect(blocks.length).toBeGreaterThan(60)
    expect(sentences.length).toBeGreaterThan(60)
  })

  it.each(blocks)('$path has a block that runs: $line', async ({ line }) => {
    expect(await problemOf(line, 'all')).toBeUndefined()
  })

  it.each(sentences)('$path names existing commands and options: $line', async ({ line }) => {
    expect(await problemOf(line, 'names')).toBeUndefined()
  })

  it.each([
    ['tandem trian', 'there is no command trian'],
    ['tandem train --lora-rank 8 --merge', 'unknown option --merge'],
    ['npx tandem sft --lora-rnk 8', 'unknown option --lora-rnk'],
    ['tandem serve --port many', expect.stringContaining('expected an integer')],
    ['tandem train --steps few', expect.stringContaining('steps')],
    ['tandem train --set learner.rate=1', expect.stringContaining('learner.rate')],
    ['tandem replay runs/first 3 4', expect.stringContaining('too many arguments')],
  ])('would be refused with a mistake: %s', async (line, problem) => {
    expect(await problemOf(line, 'all')).toEqual(problem)
  })
})
