/** Every factory rejects unknown options, as plain JavaScript or JSON may pass them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { publicValues } from './kit/doors.js'
import { useEngine } from './kit/engine.js'

useEngine()

const FACTORIES = await publicValues()

/**
 * An option of a factory, misspelled, the name that is suggested, and the place of the options
 * among the parameters (default 0).
 */
const MISSPELLED: Readonly<Record<string, readonly [wrong: string, meant: string | undefined, place?: number]>> = {
  adafactor: ['epsilon1s', 'epsilon1'],
  adamW: ['epsilons', 'epsilon'],
  adapterFiles: ['baseModels', 'baseModel', 1],
  AdaptiveKLController: ['initials', 'initial'],
  AddThinkingPrompt: ['undo_done', 'undoDone'],
  agentMonitor: ['pool', 'pools'],
  agentPolicy: ['policie', 'policies'],
  agentTemplate: ['speechs', 'speech'],
  aiSDKWrapper: ['captures', 'capture'],
  defineLoss: ['read', 'reads'],
  algorithmLoss: ['clipHighs', 'clipHigh', 1],
  arenaResults: ['price', 'prices', 1],
  balancedPartition: ['row', 'rows', 2],
  batchAdvantage: ['setting', 'settings', 1],
  batchLoss: ['configs', 'config', 1],
  breakthrough: ['row', 'rows'],
  BrowserTransform: ['onNoCalls', 'onNoCall', 1],
  byMention: ['round', 'rounds'],
  chess: ['librarys', 'library'],
  contextFolding: ['tools', 'tool'],
  GameEnv: ['prompt', 'prompts'],
  modelDecisions: ['models', 'model'],
  nashConvEvaluator: ['models', 'model'],
  negotiation: ['item', 'items'],
  roleAdvantage: ['agent', 'agents'],
  soloGame: ['opponents', 'opponent'],
  textArenaGame: ['word', 'words', 1],
  twentyQuestions: ['thing', 'things'],
  wordGuess: ['guessess', 'guesses'],
  worldReward: ['scales', 'scale'],
  textEmbedding: ['poolings', 'pooling'],
  sweReward: ['commands', 'command'],
  worldTool: ['nam', 'name', 1],
  shopCatalogue: ['type', 'types'],
  calculator: ['number', 'numbers'],
  capture: ['runs', 'run'],
  captureApp: ['journals', 'journal', 1],
  capturedBatch: ['groupSizes', 'groupSize', 1],
  chatBatch: ['tool', 'tools', 1],
  ChatEnv: ['batch_size', 'batchSize'],
  cispo: ['clipEpsilons', 'clipEpsilon'],
  clipCov: ['clipEpsilons', 'clipEpsilon'],
  clippedSurrogate: ['clipEpsilons', 'clipEpsilon'],
  codeTests: ['sandboxs', 'sandbox'],
  collectFromQueue: ['group', 'groups'],
  connectFour: ['column', 'columns'],
  consoleSink: ['name', 'names'],
  CountdownEnv: ['maxStep', 'maxSteps'],
  countdownReward: ['correctRewards', 'correctReward'],
  CountdownRewardParser: ['correctRewards', 'correctReward'],
  countdownTasks: ['maxNumbers', 'maxNumber', 1],
  curriculum: ['floors', 'floor'],
  DataLoadingPrimer: ['repeat', 'repeats'],
  DatasetChatEnv: ['prompt', 'prompts'],
  decodedPrompt: ['tokeniser', 'tokenizer'],
  decodeReplayBuffer: ['codecAts', 'codecAt', 2],
  decoderForms: ['checkpoint', 'checkpoints'],
  defineRecipe: ['setting', 'settings'],
  DistillationLoss: ['klDirections', 'klDirection'],
  defineRun: ['evaluator', 'evaluate'],
  dpoLoss: ['labelSmoothings', 'labelSmoothing'],
  dppo: ['largestRatios', 'largestRatio'],
  dro: ['betas', 'beta'],
  dynamicSampling: ['signals', 'signal', 1],
  encodeReplayBuffer: ['codecAts', 'codecAt', 2],
  enginePolicy: ['samplings', 'sampling'],
  enginePool: ['idleM', 'idleMs', 1],
  engineUpdater: ['client', 'clients'],
  evaluator: ['policys', 'policy'],
  exactMatch: ['compares', 'compare'],
  ExecuteToolsInOrder: ['registrys', 'registry'],
  folderEngine: ['backends', 'backend'],
  folderEngineModule: ['backends', 'backend'],
  formatPenalty: ['block', 'blocks'],
  formatReward: ['block', 'blocks'],
  GAE: ['whiteneds', 'whitened'],
  gae: ['whiteneds', 'whitened', 2],
  gamePrompt: ['action', 'actions', 2],
  gdpoAdvantage: ['epsilonRules', 'epsilonRule', 2],
  gmpo: ['clipEpsilons', 'clipEpsilon'],
  gpgAdvantage: ['singles', 'single', 1],
  groupAdvantage: ['epsilonRules', 'epsilonRule', 1],
  grouped: ['learningRates', 'learningRate', 1],
  grpoAdvantage: ['epsilonRules', 'epsilonRule', 1],
  GRPOLoss: ['entropyCoefficients', 'entropyCoefficient'],
  gsm8kAnswerReward: ['correctRewards', 'correctReward'],
  GSM8KEnv: ['compute_reward', 'computeReward'],
  GSM8KPrepareQuestion: ['prompts', 'prompt'],
  gsm8kReward: ['correctRewards', 'correctReward', 2],
  GSM8KRewardParser: ['onAnswers', 'onAnswer'],
  gspo: ['clipEpsilons', 'clipEpsilon'],
  hex: ['row', 'rows'],
  historyPolicy: ['tokenizers', 'tokenizer'],
  IFEvalEnv: ['max_steps', 'maxSteps'],
  ifEvalReward: ['detectLanguages', 'detectLanguage'],
  IfEvalScorer: ['judge', 'judged'],
  IncrementalTokenizer: ['tokeniser', 'tokenizer'],
  inFlightUpdater: ['weight', 'weights'],
  javascriptTool: ['memorys', 'memory'],
  judgeReward: ['verdicts', 'verdict'],
  KLComputation: ['coeficient', 'coefficient'],
  klCov: ['coefficients', 'coefficient'],
  klPenalizedRewards: ['coefficients', 'coefficient', 1],
  KLRewardTransform: ['coefficients', 'coefficient'],
  kuhnPoker: ['player', 'players'],
  languageModelPlayer: ['actoins', 'actions'],
  leducPoker: ['player', 'players'],
  liarsDice: ['side', 'sides'],
  lion: ['weightDecays', 'weightDecay'],
  LLMCollector: ['maxTurn', 'maxTurns'],
  LLMEnv: ['eosTokenID', 'eosTokenId'],
  LLMHashingEnv: ['vocabSize', undefined],
  LLMOnDevice: ['startLimitM', 'startLimitMs', 1],
  llmTextEnv: ['eos_text', 'eosText'],
  loadCheckpoint: ['positions', 'position', 1],
  loadPretrained: ['templateNames', 'templateName', 2],
  loadText: ['templateNames', 'templateName', 2],
  localLearner: ['models', 'model'],
  lossEvaluator: ['learners', 'learner'],
  luspo: ['clipEpsilons', 'clipEpsilon'],
  makeGSM8KEnv: ['eostext', 'eosText'],
  makeLLMEngine: ['runners', 'runner'],
  makeMLGym: ['maxSession', 'maxSessions'],
  makeModel: ['tokenizers', 'tokenizer'],
  makeTracker: ['timer', 'timers', 1],
  makeVLLMWorker: ['startms', 'startMs', 1],
  MATHEnv: ['rewards', 'reward'],
  mathReward: ['secondOpinions', 'secondOpinion'],
  MATHRewardParser: ['place', 'places'],
  matrixGame: ['payoff', 'payoffs'],
  repeatedGame: ['round', 'rounds'],
  MCAdvantage: ['groupSizes', 'groupSize'],
  MCAdvantageSelector: ['strategys', 'strategy'],
  mcpTools: ['server', 'servers'],
  MCPToolTransform: ['onNoCalls', 'onNoCall', 1],
  mctsPlayer: ['simulation', 'simulations'],
  measureExploitability: ['sample', 'samples', 2],
  minimaxPlayer: ['depths', 'depth'],
  mlflowSink: ['experiments', 'experiment'],
  mlgymSessions: ['maxSession', 'maxSessions'],
  MLGymWrapper: ['batchSizes', 'batchSize'],
  modelEngine: ['versions', 'version'],
  MultiAgentEnv: ['agent', 'agents'],
  MultiTurnEnv: ['max_turns', 'maxTurns'],
  muon: ['weightDecays', 'weightDecay'],
  newModel: ['tokenizers', 'tokenizer'],
  nim: ['pile', 'piles'],
  observationLimit: ['character', 'characters'],
  OpenAIWrapper: ['captures', 'capture'],
  openBrowser: ['allowedOrigin', 'allowedOrigins'],
  openRolloutQueue: ['setting', 'settings', 1],
  openTelemetrySink: ['meters', 'meter'],
  opoAdvantage: ['singles', 'single', 1],
  optimalTokenBaseline: ['aligns', 'align', 2],
  overlongPenalty: ['factors', 'factor'],
  overlongReward: ['longests', 'longest', 1],
  packRows: ['togethers', 'together', 2],
  pig: ['player', 'players'],
  planTournament: ['seat', 'seats'],
  policyLoss: ['aggregations', 'aggregation'],
  ppoLoss: ['valueCoefficients', 'valueCoefficient'],
  pretrainedFiles: ['floats', 'float', 1],
  PrioritizedSampler: ['epsilons', 'epsilon'],
  processMLGym: ['commands', 'command'],
  prometheusSink: ['bucket', 'buckets'],
  PromptGroupSampler: ['strategys', 'strategy'],
  PythonInterpreter: ['language', 'languages'],
  pythonTool: ['sandboxs', 'sandbox'],
  queuedRun: ['capacitys', 'capacity', 1],
  redisQueueLog: ['answerM', 'answerMs'],
  reinforcePlusPlusBaseline: ['singles', 'single', 1],
  ReplayBuffer: ['capacitys', 'capacity'],
  resolvePolicy: ['vllmModel', 'vllmModels', 1],
  resourcePool: ['limits', 'limit', 1],
  toolEnvironment: ['poolSizes', 'poolSize', 1],
  remoteWorldTool: ['transports', 'transport'],
  rankingReward: ['judges', 'judge'],
  thinkReward: ['partials', 'partial', 1],
  toolUseReward: ['partials', 'partial', 1],
  fileTools: ['sandboxs', 'sandbox'],
  documentedTool: ['sources', 'source'],
  retrievalTool: ['transports', 'transport'],
  RetrieveKL: ['references', 'reference'],
  RetrieveLogProb: ['models', 'model'],
  rewardModelLoss: ['centerRewardsCoefficients', 'centerRewardsCoefficient'],
  reward: ['solvedAts', 'solvedAt', 1],
  RewardSum: ['entry', undefined],
  rewardTransform: ['endOfTurns', 'endOfTurn'],
  rlooAdvantage: ['singles', 'single', 1],
  rollout: ['requests', 'request', 2],
  rolloutCorrection: ['weight', 'weights', 2],
  rolloutGroups: ['policys', 'policy'],
  roundRobin: ['round', 'rounds'],
  rowBatches: ['names', 'name'],
  runTournament: ['plan', 'plans'],
  rewardApp: ['maxRow', 'maxRows'],
  openEnvApp: ['maxSession', 'maxSessions'],
  serveApp: ['engines', 'engine'],
  serveMetrics: ['ports', 'port', 1],
  solveGame: ['iteration', 'iterations', 1],
  splitRows: ['heldOuts', 'heldOut'],
  runRolloutWorker: ['policys', 'policy'],
  rowSettings: ['column', 'columns'],
  sampleAhead: ['signals', 'signal', 2],
  SamplerWithoutReplacement: ['lasts', 'last'],
  sapo: ['positives', 'positive'],
  saveCheckpoint: ['positions', 'position', 1],
  saveModel: ['file', 'files', 2],
  segmentGAE: ['lambdas', 'lambda', 2],
  SFTLoss: ['normalizeBySeqLengths', 'normalizeBySeqLength'],
  sftRows: ['tokenizers', 'tokenizer', 1],
  sgd: ['weightDecays', 'weightDecay'],
  shellTool: ['sandboxs', 'sandbox'],
  SimpleToolTransform: ['registrys', 'registry'],
  simultaneous: ['round', 'rounds'],
  StepCounter: ['max_steps', 'maxSteps'],
  TemplateTransform: ['end_of_turn', 'endOfTurn'],
  tokenBudget: ['token', 'tokens'],
  tokenF1Reward: ['solvedAts', 'solvedAt'],
  Tokenizer: ['tokeniser', 'tokenizer'],
  tool: ['descriptions', 'description'],
  TopKRewardSelector: ['groupSizes', 'groupSize'],
  trackLoop: ['setting', 'settings', 1],
  trackioSink: ['projects', 'project'],
  trainModel: ['stage', 'stages'],
  TransformersWrapper: ['samplings', 'sampling'],
  userSimulator: ['stopMarkers', 'stopMarker'],
  valueLoss: ['clipEpsilons', 'clipEpsilon'],
  vespo: ['positives', 'positive'],
  vLLMClient: ['apiKeys', 'apiKey'],
  vLLMSampler: ['models', 'model'],
  vLLMUpdater: ['client', 'clients'],
  vLLMWrapper: ['samplings', 'sampling'],
  VTrace: ['largestRhos', 'largestRho'],
  vTrace: ['largestRhos', 'largestRho', 2],
  wandbSink: ['entitys', 'entity'],
  weightedReward: ['succes', 'success', 1],
  weightedService: ['succes', 'success', 1],
  SingleTurnEnv: ['rewards', 'reward'],
  defineAdvantage: ['computes', 'compute'],
}

/** Functions with a parameter of options that are checked in another way. */
const OTHERWISE: Readonly<Record<string, string>> = {
  engineArguments: 'passes any argument on to the server',
  checkSampling: 'names every wrong field of sampling parameters, which are a value',
  promptLogProbs: 'is called for each token of an engine, and has no optional parameter',
  tokenLogProbs: 'is called for each token of an engine, and has no optional parameter',
  toolTransform: 'is the inside of the transforms of tools',
  runCalls: 'is the inside of the transforms of tools, and has no optional parameter',
  rotaryTables: 'is the inside of a forward pass',
  withDefaults: 'refuses defaults of settings that the schema does not have',
  gameTokenEnv: 'is GameEnv with a template, and GameEnv refuses unknown options',
  gameNamed: 'passes options to the factory of the game, which refuses unknown ones',
  gameLaws: 'is for tests',
  setUpArena: 'takes a configuration that arenaConfig has checked',
}

/** Folders whose factories are in the list. */
const FOLDERS = ['envs', 'modules', 'collectors', 'objectives', 'run', 'data/buffers']
  .map((folder) => `src/${folder}`)
  .concat('packages/games/src', 'packages/serve/src', 'packages/tracking/src')

/** Types of parameters that are options by their names. */
const IS_OPTIONS = /\b(?!DecoderConfig|LoraConfig)\w*(?:Options|Config)\b/

/** The exported functions of a file with a parameter of options. */
const factoriesOf = (path: string): readonly string[] => {
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true)
  return file.statements
    .filter(ts.isVariableStatement)
    .filter(({ modifiers }) => modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
    .flatMap(({ declarationList }) => declarationList.declarations)
    .flatMap(({ name, initializer, type }) => {
      const isFactory =
        initializer !== undefined &&
        ts.isArrowFunction(initializer) &&
        (initializer.parameters.some((parameter) => IS_OPTIONS.test(parameter.type?.getText(file) ?? '')) ||
          IS_OPTIONS.test(type?.getText(file) ?? ''))
      return isFactory ? [name.getText(file)] : []
    })
}

/**
 * In place of the parameters before the options: what any of them may be taken apart as, or called
 * as.
 */
const ignored = (): undefined => undefined

describe('options that a factory does not have', () => {
  it.each(Object.entries(MISSPELLED))('%s refuses one, and suggests the nearest', async (name, row) => {
    const [wrong, meant, place = 0] = row
    const factory = FACTORIES[name] as (...given: readonly unknown[]) => unknown // each is a function of the root
    // The check comes first: nothing else has to be right.
    const call = async () => factory(...Array.from({ length: place }, () => ignored), { [wrong]: 1 })
    await expect(call).rejects.toThrow(RangeError)
    const suggestion = meant === undefined ? ' ' : `: did you mean '${meant}'?`
    await expect(call).rejects.toThrow(`${name}: unknown option '${wrong}'${suggestion}`)
  })

  it('is refused by all: each exported function with options is in the list above', () => {
    const all = FOLDERS.flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith('.ts'))
        .flatMap((path) => factoriesOf(join(folder, path))),
    ).filter((name) => name in FACTORIES)
    expect(all.length).toBeGreaterThan(150)
    expect(all.filter((name) => !(name in MISSPELLED) && !(name in OTHERWISE))).toEqual([])
    expect(Object.keys(OTHERWISE).filter((name) => !(name in FACTORIES) || name in MISSPELLED)).toEqual([])
  })
})
