// 错误的中文文案：服务器故障表中的每个代码、浏览器的拒绝、处理建议，以及服务器常见英文消息的译文。未收录的消息按代码显示，
// 原文作为详情。单个字段的错误文案在各页面的字典中。
import type { enErrors } from './en-errors';

export const zhErrors: Record<keyof typeof enErrors, string> = {
  'fault.GOING_AWAY': '服务器正在关闭。',
  'fault.IDLE': '等待数据超时。',
  'fault.NO_HELLO': '未及时收到 hello 消息。',
  'fault.TOO_LARGE': '请求内容过大。',
  'fault.PROTOCOL': '不符合 WebSocket 协议。',
  'fault.NOT_TEXT': '文本消息不是 UTF-8 编码。',
  'fault.BUSY': '服务器已满负荷。',
  'fault.REPLACED': '设备已从别处重新连接。',
  'fault.NOT_FOUND': '找不到请求的内容。',
  'fault.BAD_REQUEST': '请求无效。',
  'fault.UNAUTHORIZED': '未登录，或登录已过期。',
  'fault.FORBIDDEN': '没有访问权限。',
  'fault.NOT_CONNECTED': '设备离线。',
  'fault.CONFLICT': '请求与当前状态冲突。',
  'fault.TOO_MANY': '输入错误验证码的次数过多。',
  'fault.RATE_LIMITED': '请求过于频繁。',
  'fault.LIMIT_REACHED': '已达到每日限额。',
  'fault.UNAVAILABLE': '服务器的某个组件不可用。',
  'fault.SESSION_NOT_FOUND': '会话不存在。',
  'fault.VERSION_CONFLICT': '数据已被更改。',
  'fault.MAX_ITERATIONS_EXCEEDED': '模型一直在调用工具，没有给出回复。',
  'fault.INVALID_REQUEST': '请求无效。',
  'fault.LLM_UNAVAILABLE': '语言模型出错。',
  'fault.MCP_SERVER_ERROR': '状态服务器出错。',
  'fault.LAGGING': '事件过多，未能及时读取。',
  'fault.INTERNAL_ERROR': '服务器内部错误。',
  'fault.OFFLINE': '无法连接服务器。',
  'fault.LOCKED': '需要另一种凭据。',
  'fault.source': '工具来源不可用。',
  'fault.service': '服务出错。',
  'fault.NotAllowedError': '浏览器不允许此操作，例如使用麦克风。',
  'fault.NotFoundError': '没有找到麦克风。',
  'fault.NotReadableError': '麦克风或文件正被其他程序占用。',
  'fault.EncodingError': '无法解码音频。',
  'fault.SyntaxError': '不是有效的 JSON。',
  'fault.browser': '浏览器无法完成此操作。',

  'remedy.OFFLINE': '请确认服务器正在运行，且本机与它在同一网络中。',
  'remedy.LOCKED': '请输入另一种凭据。',
  'remedy.UNAUTHORIZED': '请重新登录。',
  'remedy.FORBIDDEN': '请检查 http.host_names、http.cors_origins 和 auth.allowed_devices。如需将程序添加为工具服务器，请启用 tools.allow_commands_over_api。',
  'remedy.NOT_FOUND': '内容可能已被删除。请检查输入，或刷新页面。',
  'remedy.BAD_REQUEST': '请修改后重试。',
  'remedy.CONFLICT': '请按上面的提示处理，或刷新页面。',
  'remedy.NOT_CONNECTED': '请唤醒设备，待其连接后重试。',
  'remedy.BUSY': '请几秒后重试。',
  'remedy.TOO_MANY': '请一分钟后再试。',
  'remedy.RATE_LIMITED': '请稍候再试。上限由 http.requests_per_minute 设置。',
  'remedy.LIMIT_REACHED': '请在服务器时间零点后再试，或提高“费用”页面的限额或角色的限额。',
  'remedy.UNAVAILABLE': '有组件不可用，详情见首页。',
  'remedy.TOO_LARGE': '请减少一次发送的内容。',
  'remedy.INTERNAL_ERROR': '请重试。详情见服务器日志。',
  'remedy.wait': '请在 {seconds} 秒后重试。',
};

/**
 * Messages of the server with their Chinese sentences; the first matching pattern applies. `$1` is a group of the pattern,
 * `#1` a group in Chinese: ranges, lists, types and access levels. Patterns match inside the message, because the server
 * puts the meaning of the code in front of it.
 */
const MESSAGES: readonly (readonly [RegExp, string])[] = [
  // Log-ins, accounts and passwords.
  [/username or the password is wrong/, '用户名或密码不正确。'],
  [/token is not valid|token has expired|session has ended|log in at \/api/, '登录已过期，请重新登录。'],
  [/this needs the (?:right|access level) `(\w+)`, you have `(\w+)`/, '此操作需要“#1”权限，当前权限为“#2”。'],
  [/code is wrong or (?:too old|expired)/, '验证码错误或已过期。请查看服务器日志，或重启服务器以获取新的验证码。'],
  [/password is (?:chosen|set) already|already has a password/, '已设置密码，请使用密码登录。'],
  [/`admin\.password`/, '密码由配置中的 admin.password 指定，请在配置中修改。'],
  [/a password has (\d+) to (\d+) characters/, '密码须为 $1 到 $2 个字符，开头和结尾不能有空格。'],
  [/a name has 1 to (\d+) characters: letters/, '用户名须为 1 到 $1 个字符，可以使用英文字母、数字和“.”“_”“-”，不能只有“.”。'],
  [/(?:somebody|another account|another user).* this name|this name is (?:taken|in use)/, '此用户名已被使用。'],
  [/there are (\d+) accounts/, '账户数量已达上限（$1 个），请先删除一个。'],
  [/changed this account|account was changed/, '此账户刚刚被更改，请重试。'],
  [/nobody has this name|no account (?:of|has|with) this name/, '没有使用此用户名的账户。'],
  [/admin token is (?:missing|wrong)/, '管理员令牌缺失或不正确。'],

  // Settings and fields.
  [/`([\w.]+)` cannot be changed (?:while the server runs|at run time)/, '$1 不能在运行时更改。'],
  [/`([\w.]+)` is set by an environment variable/, '$1 由环境变量设置。请先删除该环境变量并重启服务器。'],
  [/name at least one setting/, '请至少更改一项设置。'],
  [/`([\w.]+)` (?:stands|occurs|appears|is given) twice/, '$1 出现了两次。'],
  [/`tools\.policy` is wrong at `(.+?)`/, '规则“$1”无效。格式为“来源/工具”，末尾可用 *。'],
  [/`usage\.currency`/, 'usage.currency 最多 16 个字符。'],
  [/`([\w.]+)` is (.+?): use (.+)$/, '$1 的值“$2”无效，应为 #3。'],
  [/`([\w.]+)` is a (?:whole )?number from (\S+) to (\S+?)\.?$/, '$1 应为 $2 到 $3 的数字。'],
  [/`([\w.]+)` is a name of at most (\d+)/, '$1 最多 $2 个可见字符。'],
  [/`(\w+)` and `(\w+)` (?:must )?ha(?:s|ve) 1 to (\d+) characters/, '$1 和 $2 须为 1 到 $3 个字符。'],
  [/`([\w.]+)` (?:must )?ha(?:s|ve) 1 to (\d+) characters/, '$1 须为 1 到 $2 个字符。'],
  [/`([\w.]+)` (?:must )?ha(?:s|ve) at most (\d+) characters/, '$1 最多 $2 个字符。'],
  [/`([\w.]+)` has at most (\d+) names/, '$1 最多 $2 项。'],
  [/`([\w.[\]]+)` is missing/, '缺少 $1。'],
  [/`([\w.[\]]+)` must be (?:an? )?(\w+), not /, '$1 的类型不正确，应为 #2。'],
  [/`emotion` must be one of/, '表情无效，请从列表中选择。'],
  [/give a `name`|give the role a `name`/, '请填写名称。'],
  [/a name has 1 to (\d+) characters$/, '名称须为 1 到 $1 个字符。'],
  [/`(\w+\.\w+)`: (.+)$/, '$1 的值无效：$2'],

  // Devices.
  [/no device waits with this code|no device is waiting .*code|code belongs to no device/, '没有设备使用此验证码。'],
  [/wait a minute before the next code/, '输入错误验证码的次数过多，请一分钟后再试。'],
  [/no such device/, '设备不存在。'],
  [/recording of the device cannot be deleted/, '无法删除此设备的录音，请查看服务器日志。'],
  [/too many (?:orders|commands) waiting|too many waiting (?:orders|commands)/, '等待执行的设备命令过多，请稍后再试。'],
  [/device is not connected/, '设备离线。'],
  [/device did not answer/, '设备没有响应。'],
  [/device has no tool `(.+?)`/, '设备没有提供工具 $1。'],
  [/instance with the device does not answer/, '设备所在的实例没有响应。'],
  [/`auth\.allowed_devices`/, '此设备不在 auth.allowed_devices 中。'],
  [/device has just got another client|just claimed the device/, '设备刚刚更换了客户端，请重试。'],
  [/device belongs to another client/, '此设备属于另一个客户端。'],
  [/no device needs a token/, '设备不需要令牌：auth.required 为 never。'],
  [/too many devices (?:wait|are waiting) to be bound/, '等待绑定的设备过多，请稍后再试。'],

  // People.
  [/`speakers\.model`/, '未启用声纹识别。请设置 speakers.model 并重启服务器。'],
  [/a name has 1 to (\d+) characters, on one line/, '姓名须为 1 到 $1 个字符，不能换行，不能含有括号。'],
  [/another person has this name/, '已有同名人员，请换一个姓名。'],
  [/(\d+) people are (?:known|enrolled)/, '人员数量已达上限（$1 人），请先删除一人。'],
  [/no such person/, '人员不存在。'],
  [/(\d+) to (\d+) recordings are (?:needed|required)/, '需要 $1 到 $2 段录音。'],
  [/recording (\d+) (?:holds|has|contains) too little speech/, '第 $1 段录音中的语音太短，请提供完整的一句话。'],
  [/recordings are not of one voice/, '录音不是同一个人的声音。请只录一个人，在安静的环境中靠近麦克风录制。'],
  [/model that describes voices is busy/, '声纹模型繁忙或出错，请重试。'],
  [/another person is being enrolled/, '正在登记其他人员，请稍后再试。'],
  [/recordings did not (?:come|arrive) in time/, '录音上传超时。'],
  [/at most 40 MiB/, '录音总大小超过上限，请缩短录音。'],
  [/recording (\d+) is not base64|it is no(?:t)? base64/, '录音的编码不正确。'],
  [/more than 6 MB|longer than 30 s/, '录音过长，最长 30 秒。'],
  [/no WAV file|not a WAV file|not 16-bit PCM/, '录音不是支持的 WAV 文件：16 位 PCM，单声道或立体声，8 到 48 kHz。'],
  [/ends too early, or its header is wrong/, '录音文件不完整，请重新保存。'],

  // Roles and history.
  [/another role has this `name`/, '已有同名角色，请换一个名称。'],
  [/there are (\d+) roles/, '角色数量已达上限（$1 个），请先删除一个。'],
  [/no such version/, '版本不存在。'],
  [/no such role|no id of a role|not the id of a role|not a role's id/, '角色不存在。'],
  [/no such turn/, '没有保存此轮对话。'],
  [/not (?:kept|stored) as (?:sound|audio)|audio of the user is not stored/, '此轮对话没有保存用户音频。'],
  [/what was said is not (?:kept|stored)|(?:words|text) of this turn (?:are|is) not stored/, '此轮对话没有保存文字。'],
  [/(?:sound|audio) cannot be decoded/, '无法解码音频。'],
  [/(?:other|too many) trials (?:run|are running)/, '已有其他试用正在进行，请稍后再试。'],
  [/nothing is left today|today's limit|daily limit/, '今日限额已用完。'],
  [/the model re(?:fuses|jects|fused|jected) this/, '模型拒绝了请求。请检查模型名称和提示词。'],
  [/the model does not answer: see|the model failed/, '模型没有响应，详情见服务器日志。'],

  // Tools.
  [/there is no (?:source of tools|tool source) `(.+?)`/, '工具来源 $1 不存在。'],
  [/there is no tool server `(.+?)`/, '工具服务器 $1 不存在。'],
  [/there is no tool `(.+?)`/, '工具 $1 不存在。'],
  [/the name `(.+?)` is in use by another source/, '名称“$1”已被其他工具来源使用，请换一个名称。'],
  [/`(.+?)` is defined in `tools\.servers`/, '“$1”在配置的 tools.servers 中定义，请在配置中移除，或在此停用。'],
  [/cannot add a program over the API/, '不能通过接口添加程序。请启用 tools.allow_commands_over_api，或在 tools.servers 中定义。'],
  [/there are (\d+) tool servers/, '工具服务器数量已达上限（$1 个），请先移除一个。'],
  [/the definition of `(.+?)` is not the one that you saw/, '“$1”的定义与显示的不同，请刷新后再查看。'],
  [/there is no `(.+?)` to accept/, '$1 没有待接受的变更。'],
  [/`tools\.servers`, (.+?): (.+)$/, '工具服务器“$1”的设置无效：$2'],
  [/there are (\d+) (?:tokens of tool clients|tool client tokens)/, '工具客户端令牌数量已达上限（$1 个）。'],
  [/an agent's name has 1 to (\d+) bytes/, '智能体名称须为 1 到 $1 个字节。'],
  [/arguments are wrong: (.+)$/, '工具参数不正确：$1'],
  [/tool did not answer within (\d+) s/, '工具在 $1 秒内没有响应。'],
  [/tool cannot be reached: (.+)$/, '无法连接工具：$1'],
  [/the tool failed: (.+)$/, '工具执行失败：$1'],

  // Services, whose errors are `provider: kind: cause`.
  [/another test (?:runs|is running)/, '已有测试正在进行，请等待结束后再试。'],
  [/no answer within (\d+) s/, '服务在 $1 秒内没有响应。'],
  [/([\w.-]+): not authorised/, '$1：API 密钥无效或没有权限。'],
  [/([\w.-]+): rate limited/, '$1：触发限流，请稍后再试。'],
  [/([\w.-]+): request refused/, '$1：请求被拒绝。'],
  [/([\w.-]+): too large/, '$1：请求过长。'],
  [/([\w.-]+): not served/, '$1：账户或模型不可用。'],
  [/([\w.-]+): timed out/, '$1：响应超时。'],
  [/([\w.-]+): unavailable/, '$1：无法连接服务，或服务已停止。'],
  [/([\w.-]+): internal error of the provider/, '$1：服务内部错误。'],
  [/([\w.-]+): protocol violation/, '$1：服务的响应不符合协议。'],

  // The server itself.
  [/another backup is (?:being made|in progress)/, '已有备份正在进行，请稍后再试。'],
  [/backup cannot be written/, '无法将备份写入数据目录。'],
  [/backup cannot be read/, '无法读取备份。'],
  [/the server is (?:stopping|shutting down)/, '服务器正在关闭。'],
  [/the store (?:failed|cannot be reached)/, '无法访问存储。'],
  [/the store (?:holds|contains) something unexpected/, '存储中有无法读取的数据。'],
  [/too many requests (?:of|from) this address at once|too many concurrent requests/, '来自此地址的并发请求过多。'],
  [/try again in (\d+) s/, '请求过于频繁，请在 $1 秒后重试。'],
  [/`(.+?)` is not a known name of this server/, '此服务器不接受主机名“$1”，请将其加入 http.host_names。'],
  [/comes from a page of another site/, '请求来自其他网站的页面。如需允许，请将该网站加入 http.cors_origins。'],
  [/too many (?:watch the turns|watchers)/, '同时查看实时监控的客户端过多，请稍后再试。'],
  [/no such session|Session not found/, '会话不存在。'],
  [/session was changed meanwhile/, '会话刚刚被更改，请重试。'],
  [/another request (?:about|for) this session/, '此会话的上一个请求仍在处理，请稍后再试。'],
  [/the body (?:breaks off|is incomplete|is truncated)/, '请求内容不完整。'],
  [/the body did not (?:come|arrive) in time/, '请求内容上传超时。'],
  [/the body (?:must not exceed|has at most) (\d+) bytes/, '请求内容过大，最多 $1 字节。'],
];

/** Types and access levels. Not values that the user types, such as `true` and the `text` of `off, text or audio`. */
const WORDS: Record<string, string> = {
  text: '文本', number: '数字', object: '对象', list: '列表', array: '数组', boolean: '布尔值', integer: '整数',
  guest: '访客', member: '成员', administrator: '管理员',
};
const JOINTS: Record<string, string> = { to: '到', or: '或', and: '和' };

function translated(part: string): string {
  const bound = /^at (least|most) (\S+)$/.exec(part);
  if (bound) return `${bound[1] === 'least' ? '不小于' : '不大于'} ${bound[2]}`;
  return WORDS[part] ?? part.replace(/, /g, '、').replace(/ (to|or|and) /g, (_, word: string) => ` ${JOINTS[word] ?? word} `);
}

/** Returns the Chinese sentence for a message of the server; null if the table has none. */
export function zhMessageOf(message: string): string | null {
  for (const [pattern, text] of MESSAGES) {
    const found = pattern.exec(message);
    if (!found) continue;
    const sentence = text.replace(/([$#])(\d)/g, (_, mark: string, group: string) => {
      const part = found[Number(group)] ?? '';
      return mark === '#' ? translated(part) : part;
    });
    return sentence.replace(/应为 (?=\p{Script=Han})/u, '应为');
  }
  return null;
}
