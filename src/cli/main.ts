#!/usr/bin/env node
/** The `tandem` command. */
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { captureCommand } from './capture.js'
import { connectUpstream } from './captureUpstream.js'
import { doctorCommand } from './doctor.js'
import { evalCommand } from './eval.js'
import { CommandError } from './failure.js'
import { sampleCommand } from './sample.js'
import { serveCommand } from './serve.js'
import { startServedEngine } from './servedEngine.js'
import { trainCommand } from './train.js'
import { namedRecipe, trainRecipeCommand } from './trainRecipe.js'
import { workerCommand } from './worker.js'

const packageJson: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const version =
  typeof packageJson === 'object' && packageJson !== null && 'version' in packageJson
    ? String(packageJson.version)
    : 'unknown'

/** Recipes that are commands: `tandem sft` is `tandem train sft`. */
const RECIPE_COMMANDS = ['sft', 'dpo', 'ppo', 'distill', 'reward']
if (RECIPE_COMMANDS.includes(process.argv[2] ?? '')) process.argv.splice(2, 0, 'train')

/** `tandem train RECIPE` has the flags of its recipe. */
const train = async (): Promise<Command> => {
  const [, , command, ...args] = process.argv
  const recipe = command === 'train' ? await namedRecipe(args) : null
  return recipe === null ? trainCommand() : await trainRecipeCommand(recipe.name, recipe.resumed)
}

const program = async (): Promise<Command> =>
  new Command('tandem')
    .description('Reinforcement-learning post-training of language models.')
    .version(version)
    .addCommand(await train())
    .addCommand(evalCommand())
    .addCommand(sampleCommand())
    .addCommand(serveCommand(startServedEngine))
    .addCommand(workerCommand())
    .addCommand(captureCommand({ connect: connectUpstream, start: startServedEngine }))
    .addCommand(doctorCommand())
    .addHelpText(
      'after',
      `\nRecipes as commands, such as tandem sft for tandem train sft: ${RECIPE_COMMANDS.join(', ')}`,
    )
    .showHelpAfterError()

/** A reader such as `head` may close the pipe: that is no error. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
})

try {
  await (await program()).parseAsync()
} catch (error) {
  const isExpected = error instanceof CommandError
  console.error(isExpected ? `tandem: ${error.message}` : error)
  process.exitCode = isExpected ? 1 : 2
}
