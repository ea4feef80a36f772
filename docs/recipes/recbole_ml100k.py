import fullrank as fr
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed


def prepare(model, **eval_args):
    config = Config(model, "ml-100k", config_dict={"eval_args": eval_args, "epochs": 5, "learning_rate": 0.005})
    init_seed(config["seed"], config["reproducibility"])
    return config, *data_preparation(config, create_dataset(config))


for split in ({"RS": [0.8, 0.1, 0.1]}, {"LS": "valid_and_test"}):  # RecBole's default, and leave one out
    for name in ("BPR", "ItemKNN", "EASE"):
        config, train_data, _, test_data = prepare(name, split=split, mode="uni100")
        trainer = get_trainer(config["MODEL_TYPE"], name)(config, get_model(name)(config, train_data.dataset))
        trainer.fit(train_data, verbose=False, saved=False)
        full = trainer.evaluate(prepare(name, split=split, mode="full")[-1], load_best_model=False)
        print(fr.from_recbole(trainer, test_data), f"RecBole's full ranking: {dict(full)}", sep="\n", end="\n\n")
