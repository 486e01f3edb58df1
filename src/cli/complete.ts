/** `tandem complete`: prints a shell's completion script and answers the shell's questions. */
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import type { RootCommand } from '@bomb.sh/tab'
import tab from '@bomb.sh/tab/commander'
import { unknownName } from '@tandem-rl/base'
import { Command } from 'commander'
import type { CommandEntry } from './commandEntry.js'
import { CommandError } from './failure.js'
import { recipeNames } from './recipeFile.js'

const SHELLS: readonly string[] = ['bash', 'zsh', 'fish', 'powershell']

/** Arguments whose values are recipes, and those whose values are files or folders. */
const RECIPES = ['recipe']
const PATHS = ['folder', 'folders', 'file', 'run', 'config', ...RECIPES]

/** Options that take files or folders although their help has `<name>`. */
const PATH_OPTIONS = ['--model', '--model-folder']

/**
 * Returns the files and folders that begin with `word`. Folders end with a slash. Hidden ones are
 * listed if the name begins with a dot.
 */
const pathsLike = (word: string): readonly string[] => {
  const name = word.endsWith('/') ? '' : basename(word)
  const folder = word.slice(0, word.length - name.length)
  try {
    return readdirSync(folder === '' ? '.' : folder, { withFileTypes: true })
      .filter((entry) => entry.name.startsWith(name) && (name.startsWith('.') || !entry.name.startsWith('.')))
      .map((entry) => `${folder}${entry.name}${entry.isDirectory() ? '/' : ''}`)
  } catch {
    return [] // the folder does not exist or cannot be read, so nothing in it can be meant
  }
}

/** Returns the values of an argument, such as `recipe`, that begin with `word`. */
const valuesOf = (argument: string, word: string): readonly string[] => [
  ...(RECIPES.includes(argument) ? recipeNames() : []),
  ...(PATHS.includes(argument) ? pathsLike(word) : []),
]

/** The name in an option's flags: `folder` in `--out <folder>`. */
const argumentOf = (flags: string): string => /<([a-z]+)/.exec(flags)?.[1] ?? ''

/**
 * Drops the word to complete, and the option whose value it is. The options are those of `--help`,
 * which imports no recipe file.
 */
const finished = (words: readonly string[]): readonly string[] => [
  ...words.slice(0, words.at(-2)?.startsWith('-') === true ? -2 : -1),
  '--help',
]

/** Makes the program whose words are completed. Only the command in `words` has its options. */
const programOf = async (
  words: readonly string[],
  entries: readonly CommandEntry[],
  recipes: readonly string[],
): Promise<Command> => {
  const program = new Command('tandem')
  for (const { name, summary, load } of entries) {
    if (name === 'complete') continue // added by `tab`
    const command = name === words[0] ? await load(finished(words.slice(1))) : new Command().description(summary)
    program.addCommand(command.name(name))
  }
  for (const name of recipes) program.command(name).description(`tandem train ${name}`)
  return program
}

/** Completes the values of arguments and options that are recipes, files or folders. */
const completeValues = (root: RootCommand, command: Command, word: string): void => {
  const known = root.commands.get(command.name())
  for (const [name, argument] of known?.arguments ?? [])
    argument.handler ??= (complete) => {
      for (const value of valuesOf(name, word)) complete(value, '')
    }
  for (const { long, flags, argChoices } of command.options) {
    const option = known?.options.get(long?.slice('--'.length) ?? '')
    const argument = PATH_OPTIONS.includes(long ?? '') ? 'file' : argumentOf(flags)
    if (option === undefined || argument === '' || argChoices !== undefined) continue
    option.handler = (complete) => {
      for (const value of valuesOf(argument, word)) complete(value, '')
    }
  }
}

/**
 * Makes the command. The script of a shell calls `tandem complete -- WORDS`, where the last word is
 * the one to complete, possibly empty.
 */
export const completeCommand = async (
  args: readonly string[],
  entries: readonly CommandEntry[],
  recipes: readonly string[],
): Promise<Command> => {
  const given = args[0] === '--' ? args.slice(1) : []
  const words = given.length > 1 && recipes.includes(given[0] ?? '') ? ['train', ...given] : given
  return new Command('complete')
    .argument('[shell]', SHELLS.join(', '))
    .allowExcessArguments()
    .action(async (shell = '') => {
      const program = await programOf(words, entries, recipes)
      const root = tab(program)
      if (args[0] === '--') {
        for (const command of program.commands) completeValues(root, command, words.at(-1) ?? '')
        root.parse([...words])
      } else if (SHELLS.includes(shell)) root.setup('tandem', 'tandem', shell)
      else throw new CommandError(`${unknownName('shell', shell, SHELLS)} (available: ${SHELLS.join(', ')})`)
    })
}
