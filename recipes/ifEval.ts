/** Instruction following by GRPO: IFEval prompts with instructions that a program verifies. */
import * as T from 'tandem-rl'
import { IFEVAL } from 'tandem-rl/datasets'
import { IFEVAL_SYSTEM_PROMPT } from 'tandem-rl/envs'
import { loadLanguageDetector } from 'tandem-rl/rewards'

export const recipe = T.defineRecipe({
  name: 'ifEval',
  summary: 'Train a model by GRPO to follow instructions that a program verifies.',
  settings: T.withDefaults(T.policySettings, { steps: 200, sampling: { maxNewTokens: 256 } }).extend({
    ...T.rowSettings({
      rows: 'rows with key, prompt, instruction_id_list and kwargs, as in IFEval',
      from: 'hub:google/IFEval/ifeval_input_data.jsonl',
      columns: { prompt: 'prompt' },
    }),
    judged: T.z
      .enum(['answer', 'reply'])
      .default('reply')
      .describe('text to verify: the whole reply, or only its answer block, which the system prompt then requests'),
  }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const data = await T.orThrow(T.rowTasks(settings, IFEVAL))
    const reward = { detectLanguage: await T.orThrow(loadLanguageDetector()), judged: settings.judged }
    const systemPrompt = settings.judged === 'answer' ? { systemPrompt: IFEVAL_SYSTEM_PROMPT } : {}
    const prompts = (source: typeof data.train) => (tasks: T.TaskContext) =>
      T.IFEvalEnv({ source, reward, ...systemPrompt, ...tasks })
    return T.defineRun(
      T.grpoParts(settings, {
        model,
        env: prompts(T.shuffled(data.train, T.child(T.keyFromSeed(settings.seed), 'tasks'))),
        heldOut: [{ env: prompts(data.heldOut), tasks: data.heldOutTasks }],
      }),
      context,
    )
  },
})
