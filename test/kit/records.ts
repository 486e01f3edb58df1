/** Makes records of runs for tests. Some fields may be given. */
import type {
  EvaluationRecord,
  StepRecord,
  SummaryContext,
  TrajectoryRecord,
  UpdateMetrics,
} from '../../src/run/metrics/records.js'

/** Makes a step record that raises no alarm. */
export const stepRecord = (
  step: number,
  { update, ...changes }: Partial<Omit<StepRecord, 'update'>> & { readonly update?: Partial<UpdateMetrics> } = {},
): StepRecord => ({
  ...{ type: 'step', step, trajectories: 32, reward: 0.5, parts: { success: 0.4 }, turns: 1, toolCalls: 0 },
  ...{ truncated: 0, completionTokens: 12, groupsUsed: 4, groupsDropped: 0, groupsWithoutSignal: 1 },
  ...{ sampling: { rounds: 1, groups: 4, withoutSignal: 1, unused: 0, reward: 0.5, tokens: 384 }, correction: null },
  ...{ completionKL: 0, klCoefficient: 0, learningRate: 1e-4, metrics: {}, overlap: null, policyVersion: step - 1 },
  update: {
    ...{ loss: 0.1, gradNorm: 0.7, tokens: 384, ess: 1, entropy: 0.2, klToRef: 0.01, klApprox: 0 },
    ...{ clipFraction: 0.02, maxLogProbGap: 0, ...update },
  },
  updates: [],
  memory: { residentBytes: 2 ** 29, graphs: 3, graphBytes: 2 ** 20 },
  seconds: { generation: 1, environment: 0.25, training: 2, weightSync: 0.01 },
  ...changes,
})

/** Makes an evaluation record with an accuracy. */
export const evaluationRecord = (
  step: number,
  accuracy: number,
  { scores, ...changes }: Partial<EvaluationRecord> = {},
): EvaluationRecord => ({
  ...{ type: 'evaluation', name: 'held out', score: 'accuracy', measure: 'success', step, tasks: 200, seconds: 1 },
  ...{ scores: { accuracy, ...scores }, ...changes },
})

export const trajectoryRecord = (step: number, changes: Partial<TrajectoryRecord> = {}): TrajectoryRecord => ({
  ...{ step, trajectoryId: 'a:0', turn: 0, groupId: '0:task-0', query: 'How many?', answer: '#### 7' },
  ...{ tokens: ['<answer>', '7', '</answer>'], logProbs: [0, -0.5, 0], reward: 1, advantage: 0.9 },
  ...{ stopReason: 'stop', policyVersion: step - 1, ...changes },
})

export const summaryContext: SummaryContext = {
  ...{ status: 'finished', secondsTotal: 12, checkpointSeconds: 0.1, policyVersion: 2 },
  engine: {
    backend: 'onnxruntime',
    version: '1',
    threads: 2,
    compiles: 3,
    graphs: 3,
    graphBytes: 2 ** 20,
    fallbacks: {},
  },
}
