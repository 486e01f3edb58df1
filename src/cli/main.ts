#!/usr/bin/env node
/**
 * The `tandem` command.
 *
 * This folder holds the commands: their options, their messages, and how they build parts from
 * both. It does not hold anything that a program could need without a command line: that belongs
 * to the layer below, such as `src/run`.
 */
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

/** Recipes that are also commands: `tandem sft` is short for `tandem train sft`. */
const RECIPE_COMMANDS = ['sft', 'dpo', 'ppo', 'distill', 'reward']
if (RECIPE_COMMANDS.includes(process.argv[2] ?? '')) process.argv.splice(2, 0, 'train')

const [, , name, ...args] = process.argv

/** Adds a command with recipe flags. The recipe is loaded only if this command runs. */
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
    .addCommand(await recipeCommand('train', 'Train a model with a recipe.', trainCommand))
    .addCommand(await recipeCommand('eval', 'Evaluate a model with the evaluators of a recipe.', evalCommand))
    .addCommand(await recipeCommand('bench', 'Benchmark the steps of a recipe.', benchCommand))
    .addCommand(sampleCommand())
    .addCommand(replayCommand())
    .addCommand(serveCommand(startServedEngine))
    .addCommand(await recipeCommand('worker', 'Play rollouts of a recipe for a remote trainer.', workerCommand))
    .addCommand(captureCommand({ connect: connectUpstream, start: startServedEngine }))
    .addCommand(initCommand())
    .addCommand(doctorCommand())
    .addHelpText(
      'after',
      `\nRecipes as commands, such as tandem sft for tandem train sft: ${RECIPE_COMMANDS.join(', ')}`,
    )
    .showHelpAfterError()

/** A reader such as `head` may close the pipe; this is not an error. */
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
