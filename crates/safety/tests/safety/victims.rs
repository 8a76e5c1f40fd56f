//! Who is in danger: the reply is that for a person, a baby or an animal. Not for which topic a text has.

use hearken_safety::{Region, Safety};

/// Returns whom a reply is for.
fn whose(reply: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|words| reply.contains(words));
    if has(&[" vet", "an animal emergency clinic", "兽医", "宠物医院"]) {
        "an animal"
    } else if has(&[
        "Lay the baby face down",
        "If the baby does not breathe",
        "让宝宝脸朝下",
        "如果宝宝没有呼吸",
    ]) {
        "a baby"
    } else {
        "a person"
    }
}

fn judged(text: &str) -> &'static str {
    let safe = Safety::new(Region::of("US")).judge(text);
    safe.map_or("nobody", |safe| whose(&safe.reply))
}

fn all_are(expected: &str, texts: &[&str]) {
    let wrong = texts.iter().filter(|text| judged(text) != expected);
    let wrong: Vec<String> = wrong.map(|text| format!("{}: {text}", judged(text))).collect();
    assert!(wrong.is_empty(), "{expected} is\n{}", wrong.join("\n"));
}

#[test]
fn an_animal_beside_a_person_is_not_the_one_in_danger() {
    all_are(
        "a person",
        &[
            "someone is choking on a hot dog",
            "I can't breathe, the dog is barking",
            "i can't breathe the dog is barking",
            "the dog is barking and i can't breathe",
            "The dog is barking. My husband is not breathing!",
            "the cat is hiding, somebody passed out",
            "the dog is barking, he is choking",
            "the dog bit my son and he is bleeding badly",
            "my son was bitten by the dog and is bleeding badly",
            "my husband fell over the dog and is unconscious",
            "my husband was walking the dog and collapsed",
            "i can't breathe something is stuck in my throat the dog is barking",
            "the dog's owner is not breathing",
            "my son is choking on dog food",
            "my daughter and the dog ate rat poison",
            "he ate dog food and is choking",
            "他被热狗噎住了",
            "有人被热狗噎住了",
            "我喘不上气，狗在叫",
            "我喘不上气狗在叫",
            "狗在叫，我爸没有呼吸了",
            "狗在叫我爸没有呼吸了",
            "孩子被狗咬了流了好多血",
            "老人被狗绊倒昏迷了",
        ],
    );
}

#[test]
fn an_animal_in_danger_has_the_reply_of_a_vet() {
    all_are(
        "an animal",
        &[
            "my dog is choking on a ball",
            "I think my dog is choking",
            "help me please my dog is not breathing",
            "my dog is choking, my son is crying",
            "my dog swallowed a ball, he is choking",
            "my dog ate my pills",
            "the dog ate my daughter's pills",
            "is it dangerous that my dog ate a chocolate bar",
            "our dog ate rat poison. what are the symptoms?",
            "there is a bone stuck in my dog's throat",
            "my neighbor's dog is choking",
            "我家狗噎住了",
            "小狗被骨头球噎住了",
            "我家狗吃了老鼠药口吐白沫",
            "狗吃了我的药",
            "狗把我的药吃了",
            "邻居家的狗昏迷了",
            "我家狗吞了一个球，他噎住了",
        ],
    );
}

#[test]
fn a_baby_beside_an_adult_is_not_the_one_in_danger() {
    all_are(
        "a person",
        &[
            "my wife is not breathing, the baby is crying",
            "my wife is not breathing the baby is crying",
            "the baby is crying, my wife is not breathing",
            "the baby is crying my wife is not breathing",
            "the baby is crying, he is not breathing",
            "the baby is crying, grandpa choked on his pill and can't breathe",
            "I can't breathe, the baby is crying",
            "my wife is having a baby and she is not breathing",
            "my wife is holding the baby and is not breathing",
            "Anna is not breathing, the baby is crying",
            "the baby is crying, Anna is not breathing",
            "我老婆没有呼吸了，宝宝在哭",
            "宝宝在哭，我老婆没有呼吸了",
            "宝宝在哭我老婆没有呼吸了",
            "宝宝在哭，我叫不醒妈妈",
            "宝宝在哭，他心跳停了",
            "我喘不上气，宝宝在哭",
        ],
    );
}

#[test]
fn a_baby_in_danger_has_its_own_reply() {
    all_are(
        "a baby",
        &[
            "my baby is choking",
            "my baby is not breathing, my wife is screaming",
            "my wife is screaming, the baby is not breathing",
            "my baby swallowed a grape and she is choking",
            "my son is choking, he is three months old",
            "my three month old son is not breathing",
            "my baby girl is choking",
            "her baby is not breathing",
            "i can not wake my baby",
            "my baby was crying, now she is not breathing",
            "the baby is in the crib, just lying there not breathing",
            "how do i do the heimlich on a baby",
            "宝宝没有呼吸了，我老婆在哭",
            "我家宝宝噎住了",
            "三个月大的孩子噎住了",
            "叫不醒我家宝宝",
        ],
    );
}

#[test]
fn a_pronoun_means_who_was_in_danger_before() {
    let safety = Safety::new(Region::of("US"));
    let cases: [(&str, &[&str], &str); 18] = [
        ("she is still not breathing", &["my baby is choking"], "a baby"),
        ("still not breathing", &["my baby is choking"], "a baby"),
        ("i can not wake him up", &["my baby is choking"], "a baby"),
        ("how do i do cpr", &["my baby is not breathing"], "a baby"),
        ("i did that and still not breathing", &["my baby is choking"], "a baby"),
        ("she is blue and not breathing", &["she is choking", "my baby is choking"], "a baby"),
        ("he is still choking", &["open the door", "my dog is choking"], "an animal"),
        ("he is still choking", &["my husband is choking", "my dog is choking"], "a person"),
        ("my wife is choking too", &["my baby is choking"], "a person"),
        ("someone is choking", &["my dog is choking"], "a person"),
        ("I can't breathe", &["my baby is choking"], "a person"),
        ("she is still choking", &["how are you"], "a person"),
        ("她还是没有呼吸", &["宝宝噎住了"], "a baby"),
        ("心肺复苏怎么做", &["宝宝没有呼吸了"], "a baby"),
        ("我拍了背还是没有呼吸", &["宝宝噎住了"], "a baby"),
        ("他还是没有呼吸", &["我家狗噎住了"], "an animal"),
        ("我老婆没有呼吸了", &["宝宝噎住了"], "a person"),
        ("有人没有呼吸了", &["我家狗噎住了"], "a person"),
    ];
    for (text, before, expected) in cases {
        let safe = safety.judge_after(text, before.iter().copied());
        let found = safe.map_or("nobody", |safe| whose(&safe.reply));
        assert_eq!(found, expected, "{text} after {before:?}");
    }
    // "What now?" goes on with the words before it, which may have a pronoun, too.
    for (text, before) in [
        ("what now?", ["she is still choking", "my baby is choking"]),
        ("现在怎么办", ["她还是噎住的", "宝宝噎住了"]),
    ] {
        let safe = safety.judge_next(text, before);
        assert_eq!(safe.map_or("nobody", |safe| whose(&safe.reply)), "a baby", "{text}");
    }
}
