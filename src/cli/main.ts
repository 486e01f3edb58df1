#!/usr/bin/env node
/** The `tandem` command. */
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { benchCommand } from './bench.js'
import { captureCommand } from './capture.js'
import { connectUpstream } from './captureUpstream.js'
import { doctorCommand } from './doctor.js'
import { evalCommand } from './eval.js'
import { CommandError } from './failure.js'
import { initCommand } from './init.js'
import { replayCommand } from './replay.js'
import { sampleCommand } from './sample.js'
import { serveCommand } from './serve.js'
import { startServedEngine } from './servedEngine.js'
import { trainCommand } from './train.js'
import { workerCommand } from './worker.js'

const packageJson: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const version =
  typeof packageJson === 'object' && packageJson !== null && 'version' in packageJson
    ? String(packageJson.version)
    : 'unknown'

/** Recipes that are commands: `tandem sft` is `tandem train sft`. */
const RECIPE_COMMANDS = ['sft', 'dpo', 'ppo', 'distill', 'reward']
if (RECIPE_COMMANDS.includes(process.argv[2] ?? '')) process.argv.splice(2, 0, 'train')

const [, , name, ...args] = process.argv

/** A command whose flags are those of a recipe, which is loaded only if the command is the one that runs. */
const recipeCommand = async (
  command: string,
  description: string,
  make: (args: readonly string[]) => Promise<Command>,
): Promise<Command> =>
  command === name ? (await make(args)).name(command) : new Command(command).description(description)

const program = async (): Promise<Command> =>
  new Command('tandem')
    .description('Reinforcement-learning post-training of language models.')
    .version(version)
    .addCommand(await recipeCommand('train', 'Train a model by a recipe.', trainCommand))
    .addCommand(await recipeCommand('eval', 'Measure a model on what a recipe evaluates.', evalCommand))
    .addCommand(await recipeCommand('bench', 'Measure the steps of a recipe.', benchCommand))
    .addCommand(sampleCommand())
    .addCommand(replayCommand())
    .addCommand(serveCommand(startServedEngine))
    .addCommand(await recipeCommand('worker', 'Play rollouts of a recipe for a trainer elsewhere.', workerCommand))
    .addCommand(captureCommand({ connect: connectUpstream, start: startServedEngine }))
    .addCommand(initCommand())
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
