/**
 * The commands of `tandem`. A command is imported only when it runs, so that the others cost no
 * start-up time.
 */
import type { CommandEntry } from './commandEntry.js'

/** Recipes that are also commands: `tandem sft` is short for `tandem train sft`. */
export const RECIPE_COMMANDS: readonly string[] = ['sft', 'dpo', 'ppo', 'distill', 'reward']

export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'train',
    summary: 'Train a model with a recipe.',
    group: 'Train:',
    examples: [
      'tandem train --out runs/first --steps 60',
      'tandem train gsm8k --model Qwen/Qwen2.5-0.5B-Instruct --lora-rank 8',
      'tandem train ./my-recipe.ts --set learner.learningRate=3e-5',
      'tandem train --resume runs/first --steps 90',
    ],
    load: async (args) => (await import('./train.js')).trainCommand(args),
  },
  {
    name: 'eval',
    summary: 'Evaluate a model with the evaluators of a recipe.',
    group: 'Evaluate:',
    examples: ['tandem eval runs/first --eval-tasks 500', 'tandem eval wordProblems --model embedded'],
    load: async (args) => (await import('./eval.js')).evalCommand(args),
  },
  {
    name: 'sample',
    summary: 'Sample completions of a question.',
    group: 'Evaluate:',
    examples: [
      'tandem sample --model runs/first --count 4 --temperature 0.8',
      'tandem sample --recipe numberGuessing --count 2',
    ],
    load: async () => (await import('./sample.js')).sampleCommand(),
  },
  {
    name: 'replay',
    summary: 'Repeat one step of a run and print the differences. The run is not changed.',
    group: 'Evaluate:',
    examples: ['tandem replay runs/first 12'],
    load: async () => (await import('./replay.js')).replayCommand(),
  },
  {
    name: 'report',
    summary: 'Write the report of a run, also while it trains or after it was killed.',
    group: 'Evaluate:',
    examples: ['tandem report runs/first', 'tandem report runs/first --out first.html'],
    load: async () => (await import('./report.js')).reportCommand(),
  },
  {
    name: 'merge',
    summary: 'Write a model with its LoRA adapter merged, as a folder for Transformers.',
    group: 'Serve:',
    examples: [
      'tandem merge runs/first models/merged --dtype BF16',
      'tandem merge Qwen/Qwen2.5-0.5B-Instruct models/merged --adapter adapters/mine',
    ],
    load: async () => (await import('./merge.js')).mergeCommand(),
  },
  {
    name: 'init',
    summary: 'Create a small project: a recipe, an environment, a reward, and tests of their laws.',
    group: 'Start:',
    examples: ['tandem init my-project', 'tandem init my-project --with testing,games'],
    load: async () => (await import('./init.js')).initCommand(),
  },
  {
    name: 'doctor',
    summary:
      'Test the installed tensor backends and their speed, and print how to install others. Fails if the default does not work.',
    group: 'Start:',
    examples: ['tandem doctor', 'tandem doctor --model Qwen/Qwen2.5-0.5B-Instruct'],
    load: async () => (await import('./doctor.js')).doctorCommand(),
  },
  {
    name: 'complete',
    summary: 'Print a script that completes commands, options, recipes and files in a shell.',
    group: 'Start:',
    examples: [
      'tandem complete bash >> ~/.bashrc',
      'tandem complete zsh >> ~/.zshrc',
      'tandem complete fish > ~/.config/fish/completions/tandem.fish',
    ],
    load: async (args) => {
      const [{ completeCommand }, { guestCommands }] = await Promise.all([
        import('./complete.js'),
        import('./guests.js'),
      ])
      const others = await guestCommands(
        process.cwd(),
        COMMANDS.map(({ name }) => name),
      )
      return completeCommand(args, [...COMMANDS, ...others], RECIPE_COMMANDS)
    },
  },
]
